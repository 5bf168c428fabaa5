// Builds one schedule in time: whenever a rank is free, it takes the most urgent thing
// that it can do.
#pragma once
#include <optional>
#include <vector>

#include "trireme/sched/search.h"

namespace trireme::sched {

/// How a rank chooses.
struct ListRules {
  /// By rank: forwards whose backward has not begun, at most.
  std::vector<int> caps;
  /// A forward goes before a backward, if both can start.
  bool forward_first = false;
  /// Backwards are split; otherwise each is one action.
  bool split = true;
  /// A weight gradient is not begun if something more urgent comes within this part of
  /// its time.
  double patience = 0;
};

/// Nothing if the caps or the memory let no rank go on.
std::optional<Schedule> list_schedule(
    const SearchProblem& problem, const ListRules& rules);

}  // namespace trireme::sched
