// Builds one schedule in time: whenever a rank is free, it takes the most urgent thing
// that it can do.
#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "trireme/sched/costs.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// A pipeline whose computations are to be put into order.
struct OrderProblem {
  std::vector<int> rank_of_stage;
  int microbatches = 1;
  Costs costs;
  /// Bytes of activations and weights a rank; infinity: no cap.
  double memory_limit = std::numeric_limits<double>::infinity();
};

/// InvalidArgument unless there are stages, each with a rank, microbatches and legal
/// costs, and not too many of them to be put into order one by one.
void check_problem(const OrderProblem& problem);

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

/// Nothing if the caps or the memory let no rank go on. InvalidArgument as
/// check_problem().
std::optional<Schedule> list_schedule(
    const OrderProblem& problem, const ListRules& rules);

}  // namespace trireme::sched
