// Which ranks of a group live together on a host.
#pragma once
#include <optional>
#include <span>
#include <vector>

namespace trireme::comm {

/// The hosts of a group, in the order of its ranks. The ranks of a host follow one
/// another: sums are taken in the order of the ranks, host by host.
struct HostLayout {
  /// The group's rank of each host's first member: its leader.
  std::vector<int> leaders;
  /// Ranks in all.
  int ranks = 0;
  /// The host of the rank that asks.
  int mine = 0;

  int hosts() const { return static_cast<int>(leaders.size()); }
  int leader(int host) const { return leaders[static_cast<size_t>(host)]; }
  int ranks_of(int host) const;
  int host_of(int rank) const;
  int most_ranks() const;
  bool last() const { return mine + 1 == hosts(); }
};

/// The layout if host_of[k] names the host of rank k, by any number; nothing where the
/// ranks of a host do not follow one another.
std::optional<HostLayout> lay_out_hosts(std::span<const int> host_of, int rank);

}  // namespace trireme::comm
