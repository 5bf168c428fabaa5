#include "trireme/pipe/core_share.h"

#include <set>

#include "trireme/core/machine.h"
#include "trireme/pipe/gather_rows.h"

namespace trireme::pipe {

double cores_per_rank(const comm::Group& group) {
  std::vector<int64_t> mine;
  for (const int cpu : allowed_cpus())
    mine.push_back(cpu);
  // A quota may allow less than all of them at a time.
  mine.resize(std::min(mine.size(), static_cast<size_t>(available_cores())));
  return cores_per_rank(gather_rows(group, mine));
}

double cores_per_rank(const std::vector<std::vector<int64_t>>& cpus_of_rank) {
  std::set<int64_t> all;
  for (const auto& cpus : cpus_of_rank)
    all.insert(cpus.begin(), cpus.end());
  return static_cast<double>(all.size()) / static_cast<double>(cpus_of_rank.size());
}

}  // namespace trireme::pipe
