// What the ranks of a job find in their environment: torchrun's variables.
#pragma once
#include <string>

#include "trireme/core/environment.h"
#include "trireme/core/launch_env.h"
#include "trireme/launch/options.h"

namespace trireme::launch {

/// What all ranks of one attempt have in common.
struct JobPlace {
  int ranks = 1;
  std::string run_id;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  int restart_count = 0;
  int max_restarts = 0;
  /// For OMP_NUM_THREADS: all cores that the job may use.
  int cores = 1;
};

/// The variables of one rank: those of this process, over them `extra`, over both what
/// torchrun would set. OMP_NUM_THREADS, OMP_WAIT_POLICY (which is set where ranks
/// outnumber cores) and GLIBC_TUNABLES stay as they are where somebody has set them.
///
///     rank_variables(place, 2, Environment::of_process(), {})["RANK"];   // "2"
Environment::Variables rank_variables(
    const JobPlace& place,
    int rank,
    const Environment& inherited,
    const Environment::Variables& extra);

/// The place of the job as its ranks will read it from those variables.
LaunchEnv launch_env(const JobPlace& place);

/// A port on this host that nobody uses now.
int free_port();

/// A name that no other job on this host has.
std::string fresh_run_id();

}  // namespace trireme::launch
