// How a world of several hosts comes together, once its ranks can talk over a wire.
#pragma once
#include <memory>

#include "trireme/comm/backend.h"
#include "trireme/comm/wire/wire_engine.h"

namespace trireme::comm {

/// Joins the ranks of each host in shared memory, and gives the engine of them all;
/// `flat` itself where every host has one rank. InvalidArgument on all ranks where
/// LOCAL_RANK and LOCAL_WORLD_SIZE do not say that the ranks of each host follow one
/// another. Collective.
std::shared_ptr<Engine> join_hosts(
    const BackendContext& context, std::shared_ptr<WireEngine> flat);

}  // namespace trireme::comm
