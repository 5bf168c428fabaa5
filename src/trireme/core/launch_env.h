// What the launcher said about this process: its rank, its world and where they meet.
// Three launchers write it in three ways; the rest of Trireme sees one struct.
#pragma once
#include <chrono>
#include <string>

#include "trireme/core/environment.h"

namespace trireme {

/// Who started this process, as far as its variables tell.
enum class Launcher { None, Torchrun, OpenMpi, Slurm };

/// "none", "torchrun", "OpenMPI" or "Slurm". `trireme run` speaks as torchrun does.
const char* to_string(Launcher launcher);

/// The place of one process in its world. Ranks and sizes are consistent with each
/// other when it comes from read_launch_env.
struct LaunchEnv {
  Launcher launcher = Launcher::None;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  /// As it was given; net::Address takes an IPv6 number with brackets or without.
  /// Empty only where several hosts were started by mpirun or srun without MASTER_ADDR;
  /// the mpi backend needs none.
  std::string master_addr = "127.0.0.1";
  /// 0 where the launcher gave none and a run id does its work.
  int master_port = 0;
  /// What tells this job from others: torchrun's run id, the MPI namespace or
  /// "job.step".
  std::string run_id;
  /// How often the launcher has started this job again.
  int restart_count = 0;

  /// Whether all ranks are on this host.
  bool one_host() const { return local_world_size == world_size; }

  /// The ranks of this host as a world of their own, with a name that no other part of
  /// the job has; the same where all are on this host.
  LaunchEnv on_this_host() const;

  /// Whether there is an address at which the ranks can meet over the network.
  bool has_master() const { return !master_addr.empty() && master_port != 0; }
};

/// Reads the launcher's variables; InvalidArgument for what is missing or
/// contradictory.
///
///     LaunchEnv place = read_launch_env(Environment::of_process());
///     if (place.rank == 0) std::cout << place.world_size << " ranks\n";
///
/// The first of these that applies decides:
/// 1. RANK or WORLD_SIZE is set: torchrun. Both are needed, and MASTER_PORT for more
/// than
///    one rank. MASTER_ADDR defaults to 127.0.0.1 when all ranks are on one host.
///    LOCAL_RANK and LOCAL_WORLD_SIZE default to RANK and WORLD_SIZE only where
///    MASTER_ADDR is not set or a loopback address, because only then it is sure that
///    there is one host.
/// 2. OMPI_COMM_WORLD_RANK or _SIZE is set: mpirun of OpenMPI. The namespace of the job
/// tells
///    it from others, so that MASTER_PORT is needed only where the namespace is
///    missing.
/// 3. SLURM_PROCID is set within a step of srun. The body of a batch script is no rank.
/// 4. A world of one.
LaunchEnv read_launch_env(const Environment& env);

/// The part of the job that this process belongs to: `trireme run -n 4 -- ./trainer :
/// -n 1 -- ./server` starts several programs as one world.
struct LaunchRole {
  /// "default" where the launcher has not told programs apart.
  std::string name = "default";
  /// Among the ranks of this role, and how many there are.
  int rank = 0;
  int size = 1;
  bool operator==(const LaunchRole&) const = default;
};

/// Reads ROLE_NAME, ROLE_RANK and ROLE_WORLD_SIZE, which `trireme run` and torchrun
/// set. Where none of them is set, and under other launchers, all ranks have one role.
/// InvalidArgument for what is missing or contradictory.
///
///     LaunchRole role = read_launch_role(Environment::of_process());
///     if (role.name == "server") serve(role.rank, role.size);
LaunchRole read_launch_role(const Environment& env);

/// How many threads this rank should use within an operation: OMP_NUM_THREADS where
/// somebody has set it (our launcher and torchrun do), else its share of the `cores`
/// that it may use with the other ranks of this host. mpirun and srun may have bound
/// it to cores of its own: then it is its share of the `launcher_cores`, at most its
/// own.
int rank_threads(const Environment& env, int cores, int launcher_cores);

/// The default deadline of blocking calls: TRIREME_TIMEOUT in seconds (above 0, at most
/// a day), else 5 minutes.
std::chrono::milliseconds read_timeout(const Environment& env);

/// How long another host may be silent before it counts as gone: TRIREME_HEARTBEAT in
/// seconds (at least 1, at most a day), else 10.
std::chrono::milliseconds read_heartbeat(const Environment& env);

}  // namespace trireme
