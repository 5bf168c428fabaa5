// How a program comes by its first group.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/core/launch_env.h"

namespace trireme::comm {

/// What init() is told beyond the launcher's variables.
struct InitOptions {
  /// Empty: TRIREME_BACKEND, or what fits: "none" for one rank, "shm" for ranks of one
  /// host, "mpi" for ranks of several hosts that mpirun or srun has started, else
  /// "tcp".
  std::string backend;
  /// For meeting the others and for every call; zero: TRIREME_TIMEOUT, or 5 minutes.
  std::chrono::milliseconds timeout{0};
};

/// Joins the world that the launcher's variables describe (torchrun's, OpenMPI's or
/// Slurm's; none: a world of one) and meets its other ranks.
///
///     comm::Group world = comm::init();
Group init(const InitOptions& options = {});

/// The same with the launcher's word given by hand.
Group init(const LaunchEnv& env, const InitOptions& options = {});

/// Runs `body`, and tells the other ranks what it throws, before it throws that on. An
/// exception that passes the last handle of a group is noticed too, but then the others
/// learn only that there was one.
///
///     comm::Group world = comm::init();
///     comm::telling_peers(world, [&] { train(world); });
void telling_peers(const Group& world, const std::function<void()>& body);

/// What run_local() is told beyond the number of ranks.
struct LocalOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// Threads that a rank uses within an operation; 0: its share of the caller's
  /// (at::get_num_threads()), at least one.
  int threads = 0;
};

/// Runs `body` on `ranks` threads, each with its own rank, and waits for all. A rank
/// that throws stops the others (PeerError); its own error is what run_local() throws.
///
///     comm::run_local(4, [](const comm::Group& world) { … });
void run_local(
    int ranks,
    const std::function<void(const Group&)>& body,
    const LocalOptions& options = {});

/// What makes an engine for each rank of a world of threads.
using JoinWorld = std::function<std::shared_ptr<Engine>(int rank, const Deadline&)>;

/// The same over any world whose ranks are threads: for tests of backends.
void run_threads(
    int ranks,
    const JoinWorld& join,
    const std::function<void(const Group&)>& body,
    const LocalOptions& options = {});

}  // namespace trireme::comm
