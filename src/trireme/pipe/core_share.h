// Where the ranks of a group run, and how many cores each of them has.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::pipe {

/// Where a rank runs.
struct RankCores {
  /// The same for all ranks under one kernel, which share its clock and its CPUs.
  int64_t host = 0;
  /// The CPUs of that host that the rank may use.
  std::vector<int> cpus{};
};

/// This process.
RankCores own_cores();

/// What every rank says of itself, in the order of the ranks. Collective.
std::vector<RankCores> gather_cores(const comm::Group& group, const RankCores& mine);

/// The cores of a host, shared out among its ranks; of the host where that is least.
double cores_per_rank(const std::vector<RankCores>& ranks);

}  // namespace trireme::pipe
