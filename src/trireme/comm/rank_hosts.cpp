#include "trireme/comm/rank_hosts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "trireme/comm/gather_rows.h"
#include "trireme/core/environment.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/machine.h"

namespace trireme::comm {
namespace {

/// What the ranks of a kernel have together.
struct Kernel {
  std::set<int> cpus;
  int64_t memory_bytes = 0;
  int ranks = 0;
};

template <class What>
double least_share(const std::vector<RankHost>& ranks, const What& what) {
  std::map<int64_t, Kernel> kernels;
  for (const RankHost& rank : ranks) {
    Kernel& kernel = kernels[rank.kernel];
    kernel.cpus.insert(rank.cpus.begin(), rank.cpus.end());
    kernel.memory_bytes = std::max(kernel.memory_bytes, rank.memory_bytes);
    ++kernel.ranks;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [number, kernel] : kernels)
    least = std::min(least, static_cast<double>(what(kernel)) / kernel.ranks);
  return least;
}

}  // namespace

RankHost own_host() {
  const LaunchEnv place = read_launch_env(Environment::of_process());
  RankHost mine{
      .kernel = kernel_number(),
      .first_rank = place.rank - place.local_rank,
      .memory_bytes = static_cast<int64_t>(available_memory_bytes()),
      .cpus = allowed_cpus()};
  // A quota may allow less than all of them at a time.
  mine.cpus.resize(std::min(mine.cpus.size(), static_cast<size_t>(available_cores())));
  return mine;
}

std::vector<RankHost> gather_hosts(const Group& group, const RankHost& mine) {
  std::vector<int64_t> row{mine.kernel, mine.first_rank, mine.memory_bytes};
  row.insert(row.end(), mine.cpus.begin(), mine.cpus.end());
  std::vector<RankHost> all;
  for (const std::vector<int64_t>& theirs : gather_rows(group, row)) {
    RankHost& one = all.emplace_back(RankHost{
        .kernel = theirs[0], .first_rank = theirs[1], .memory_bytes = theirs[2]});
    for (size_t i = 3; i < theirs.size(); ++i)
      one.cpus.push_back(static_cast<int>(theirs[i]));
  }
  return all;
}

double cores_per_rank(const std::vector<RankHost>& ranks) {
  return least_share(ranks, [](const Kernel& kernel) { return kernel.cpus.size(); });
}

double memory_per_rank(const std::vector<RankHost>& ranks) {
  return least_share(ranks, [](const Kernel& kernel) { return kernel.memory_bytes; });
}

}  // namespace trireme::comm
