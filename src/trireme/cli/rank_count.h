// How many ranks "auto", "cpu", "gpu" or a number mean on this machine.
#pragma once
#include <filesystem>
#include <string>

#include "trireme/core/environment.h"

namespace trireme::cli {

/// What a number of ranks may depend on.
struct RankSources {
  int cores = 1;
  int gpus = 0;
};

/// Of this machine: the cores that this process may use, and the GPUs that
/// CUDA_VISIBLE_DEVICES names or, without it, those that have a file in `devices`.
RankSources rank_sources(
    const Environment& env, const std::filesystem::path& devices = "/dev");

/// A whole number, or "cpu" (as many as cores), "gpu" (as GPUs), "auto" (as GPUs if
/// there are any, else as cores). InvalidArgument for anything else, and for "gpu"
/// without one.
int parse_rank_count(const std::string& value, const RankSources& sources);

}  // namespace trireme::cli
