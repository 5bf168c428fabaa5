// How Slurm describes a step of srun to its tasks; launch_env.cpp makes ranks of it.
#pragma once
#include <string_view>
#include <vector>

#include "trireme/core/environment.h"

namespace trireme {

/// Whether this process is a task of srun. The body of a batch script and the shell of
/// salloc have SLURM_PROCID=0 too, but either no step id or one of Slurm's special
/// ones.
bool in_slurm_step(const Environment& env);

/// The tasks on each node from Slurm's short form: "4", "4(x2)" or "2(x3),1". Anything
/// else is InvalidArgument that names the variable `name`.
std::vector<int> parse_slurm_tasks(std::string_view name, std::string_view value);

/// How many tasks of this step run on this host. InvalidArgument where Slurm's
/// variables are missing or do not add up to `world_size`.
int slurm_local_size(const Environment& env, int world_size);

}  // namespace trireme
