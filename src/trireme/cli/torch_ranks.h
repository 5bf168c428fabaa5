// Commands that use libtorch on several ranks: who starts them, and how each begins.
#pragma once
#include <functional>
#include <string>

#include "trireme/comm/group.h"

namespace trireme::cli {

/// What one rank does; its result is the exit code.
using RankBody = std::function<int(const comm::Group& world)>;

/// Whether a launcher has started this process as a rank.
bool is_rank();

/// Runs `body` on so many ranks: forks of this process, or this process itself if it is
/// one rank, or is one of a launcher's. Each rank gets its share of the cores and the
/// caching allocator. Gives the exit code of the job. Call it before libtorch has
/// started threads.
int run_ranks(int ranks, const RankBody& body);

/// The same, but always on forks, one rank too: this process stays as it is.
int fork_ranks(int ranks, const RankBody& body);

}  // namespace trireme::cli
