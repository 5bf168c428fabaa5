// Starts the backend "tcp": ranks of one host or of many, without MPI.
#pragma once
#include <memory>
#include <string>

#include "trireme/comm/backend.h"

namespace trireme::comm {

/// The engine of this rank: shared memory inside its host, tcp between hosts. Rank 0
/// hosts the store at MASTER_ADDR and MASTER_PORT, unless TRIREME_STORE names another.
/// What protects it comes from the environment (docs/security.md).
std::shared_ptr<Engine> start_tcp(const BackendContext& context);

/// The address of this machine by which `host` sees it: that of the interface that
/// leads there. InvalidArgument if nothing does.
std::string address_towards(const std::string& host);

}  // namespace trireme::comm
