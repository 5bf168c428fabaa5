#include "trireme/comm/shared/rank_cores.h"

#include <algorithm>
#include <bit>

#include "trireme/core/machine.h"

namespace trireme::comm {

void RankCores::add(int cpu) {
  if (cpu >= 0 && cpu < kMostCpus)
    cpus[static_cast<size_t>(cpu) / 64] |= uint64_t{1} << (cpu % 64);
}

RankCores RankCores::of_this_thread() {
  RankCores cores;
  for (const int cpu : allowed_cpus())
    cores.add(cpu);
  cores.quota = cpu_quota();
  return cores;
}

int cores_together(std::span<const RankCores> ranks) {
  RankCores all;
  int quota = RankCores::kMostCpus;
  for (const RankCores& rank : ranks) {
    for (size_t i = 0; i < all.cpus.size(); ++i)
      all.cpus[i] |= rank.cpus[i];
    if (rank.quota > 0)
      quota = std::min(quota, rank.quota);
  }
  int cores = 0;
  for (const uint64_t word : all.cpus)
    cores += std::popcount(word);
  return std::max(1, std::min(cores, quota));
}

WaitPolicy wait_policy(std::span<const RankCores> ranks) {
  constexpr std::chrono::microseconds kLook{50};
  if (static_cast<int>(ranks.size()) <= cores_together(ranks))
    return {.spin = kLook};
  return {.yield = kLook};
}

}  // namespace trireme::comm
