#include "trireme/comm/wire/host_layout.h"

#include <algorithm>
#include <set>

namespace trireme::comm {

int HostLayout::ranks_of(int host) const {
  return (host + 1 < hosts() ? leader(host + 1) : ranks) - leader(host);
}

int HostLayout::host_of(int rank) const {
  const auto after = std::upper_bound(leaders.begin(), leaders.end(), rank);
  return static_cast<int>(after - leaders.begin()) - 1;
}

int HostLayout::most_ranks() const {
  int most = 0;
  for (int host = 0; host < hosts(); ++host)
    most = std::max(most, ranks_of(host));
  return most;
}

std::optional<HostLayout> lay_out_hosts(std::span<const int> host_of, int rank) {
  HostLayout layout{.ranks = static_cast<int>(host_of.size())};
  std::set<int> seen;
  for (size_t k = 0; k < host_of.size(); ++k) {
    if (k > 0 && host_of[k] == host_of[k - 1])
      continue;
    if (!seen.insert(host_of[k]).second)
      return std::nullopt;
    layout.leaders.push_back(static_cast<int>(k));
  }
  layout.mine = layout.host_of(rank);
  return layout;
}

}  // namespace trireme::comm
