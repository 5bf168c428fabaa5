// Starts the backend "tcp": ranks of one host or of many, without MPI.
#pragma once
#include <memory>
#include <string>

#include "trireme/comm/backend.h"
#include "trireme/net/address.h"

namespace trireme::comm {

/// The engine of this rank: shared memory inside its host, tcp between hosts. Rank 0
/// hosts the store at MASTER_ADDR and MASTER_PORT, unless TRIREME_STORE names another.
/// What protects it comes from the environment (docs/security.md).
std::shared_ptr<Engine> start_tcp(const BackendContext& context);

/// Where a rank listens, and the host by which the others find it there.
struct TcpPlace {
  net::Address listen;
  std::string host;
};

/// The place by which ranks that know `master` reach this one: the address of the
/// interface that leads there. On the master itself that may be a loopback address, as
/// many systems have it for their own name: then it listens everywhere, and is found by
/// that name. InvalidArgument if nothing leads there.
TcpPlace tcp_place(const std::string& master);

}  // namespace trireme::comm
