// The one world of a test program that runs under mpirun, where every rank is a process
// with the same tests in the same order.
#pragma once
#include "trireme/comm/group.h"
#include "trireme/comm/mpi/mpi_wire.h"
#include "trireme/core/launch_env.h"
#include "trireme/testing/world.h"

namespace trireme::testing {

/// The world of mpirun, made by the first call.
const comm::Group& mpi_world();

/// MPI, started by mpi_world().
comm::MpiRuntime& mpi_runtime();

/// A second world of the same ranks with other limits, to come to other branches.
comm::Group tuned_world(const comm::MpiSetup& setup);

/// The variables of this rank as if the first `sizes[0]` ranks were on one host, the
/// next `sizes[1]` on another, and so on.
LaunchEnv on_hosts(const std::vector<int>& sizes);

/// Runs `body` on the first `ranks` of the world. A rank that throws ends the job.
void run_mpi(int ranks, const RankBody& body);

}  // namespace trireme::testing
