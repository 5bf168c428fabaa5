// Who waits for whom, in a cycle.
#pragma once
#include <algorithm>
#include <vector>

#include "trireme/sched/index.h"

namespace trireme::sched {

/// The ranks of the shortest cycle; empty if there is none. `next` gives the one rank
/// that a rank waits for, or -1 if it does not wait.
template <class Next>
std::vector<int> shortest_cycle(int ranks, const Next& next) {
  std::vector<int> seen(index(ranks), -1), best;
  for (int start = 0; start < ranks; ++start) {
    std::vector<int> way;
    int rank = start;
    while (next(rank) >= 0 && seen[index(rank)] < 0) {
      seen[index(rank)] = start;
      way.push_back(rank);
      rank = next(rank);
    }
    // What an earlier start has walked was looked at then.
    if (next(rank) < 0 || seen[index(rank)] != start)
      continue;
    way.erase(way.begin(), std::find(way.begin(), way.end(), rank));
    if (best.empty() || way.size() < best.size())
      best = way;
  }
  return best;
}

}  // namespace trireme::sched
