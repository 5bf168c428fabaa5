// Where the ranks of a group run, and what each of them has of its host.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::comm {

/// Where a rank runs.
struct RankHost {
  /// The same for all ranks under one kernel, which share its clock, its CPUs and its
  /// memory.
  int64_t kernel = 0;
  /// The first of the world's ranks on this host, as the launcher counts hosts: those
  /// with the same one reach each other without a network.
  int64_t first_rank = 0;
  /// How much memory there is for all ranks of the host.
  int64_t memory_bytes = 0;
  /// The CPUs of that kernel that the rank may use.
  std::vector<int> cpus{};
};

/// This process.
RankHost own_host();

/// What every rank says of itself, in the order of the ranks. Collective.
std::vector<RankHost> gather_hosts(const Group& group, const RankHost& mine);

/// The cores of a kernel, shared out among its ranks; of the one where that is least.
///
///     const auto hosts = gather_hosts(world, own_host());
///     if (cores_per_rank(hosts) >= 2) start_a_second_thread();
double cores_per_rank(const std::vector<RankHost>& ranks);

/// The memory of a kernel, shared out among its ranks; of the one where that is least.
double memory_per_rank(const std::vector<RankHost>& ranks);

}  // namespace trireme::comm
