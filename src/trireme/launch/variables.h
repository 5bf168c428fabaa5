// What the ranks of a job find in their environment: torchrun's variables.
#pragma once
#include <string>
#include <vector>

#include "trireme/core/environment.h"
#include "trireme/core/launch_env.h"
#include "trireme/launch/options.h"
#include "trireme/launch/roles.h"

namespace trireme::launch {

/// What all ranks of one attempt have in common.
struct JobPlace {
  /// In all, on this node, and before this node's.
  int ranks = 1;
  int local_ranks = 1;
  int first_rank = 0;
  int node = 0;
  int nodes = 1;
  /// In the order of the ranks of all nodes; none: all have one, "default".
  std::vector<RoleShare> roles{};
  std::string run_id;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  int restart_count = 0;
  int max_restarts = 0;
  /// For OMP_NUM_THREADS: all cores of this node that the job may use.
  int cores = 1;
  /// For TRIREME_STORE; empty: rank 0 makes a store itself.
  std::string store;
  /// For TRIREME_JOB_KEY, in place of all that says how connections are protected;
  /// empty: what is set stays.
  std::string job_key;
};

/// The variables of one rank, counted on this node: those of this process, over them
/// `extra`, over both what torchrun would set. OMP_NUM_THREADS, OMP_WAIT_POLICY (which
/// is set where ranks outnumber cores) and GLIBC_TUNABLES stay as they are where
/// somebody has set them.
///
///     rank_variables(place, 2, Environment::of_process(), {})["RANK"];   // "2"
Environment::Variables rank_variables(
    const JobPlace& place,
    int rank,
    const Environment& inherited,
    const Environment::Variables& extra);

/// The place of the job as the first rank of this node will read it from those
/// variables.
LaunchEnv launch_env(const JobPlace& place);

/// Those that say how connections are protected.
inline constexpr const char* kSecurityVariables[] = {
    "TRIREME_SECURITY",
    "TRIREME_JOB_KEY",
    "TRIREME_JOB_KEY_FILE",
    "TRIREME_CA_FILE",
    "TRIREME_CERTIFICATE_FILE",
    "TRIREME_PRIVATE_KEY_FILE"};
/// Whether one of them is set.
bool has_security(const Environment& env);

/// A port that nobody uses now at any address of this host.
int free_port();

/// A name that no other job on this host has.
std::string fresh_run_id();

}  // namespace trireme::launch
