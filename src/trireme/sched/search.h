// Finds a good order for given costs, by building schedules action by action.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/sched/costs.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// What is to be put into order.
struct SearchProblem {
  std::vector<int> rank_of_stage;
  int microbatches = 1;
  Costs costs;
  /// Bytes of activations and weights a rank; infinity: no cap.
  double memory_limit = std::numeric_limits<double>::infinity();
};

/// InvalidArgument unless there are stages, each with a rank, microbatches and legal
/// costs, and not too many of them to be put into order one by one.
void check_problem(const SearchProblem& problem);

/// How hard to try.
struct SearchOptions {
  /// Only what ends before this is looked for.
  double better_than = std::numeric_limits<double>::infinity();
  /// Partial schedules that are kept at each point. When there never were more, what is
  /// found is the optimum over all schedules that keep each stage's microbatches in
  /// order.
  int width = 64;
};

struct SearchResult {
  /// Empty if nothing fits into memory, or ends early enough.
  std::optional<Schedule> schedule;
  double makespan = 0;
  /// Whether nothing was left out that could have been better.
  bool exact = false;
};

/// Builds schedules in time: at each point the computation that could end first decides
/// on which rank something is chosen, and everything that could start there before it
/// ends is tried. Of two partial schedules that have done the same, one that is later
/// in everything is dropped. InvalidArgument as check_problem().
SearchResult search(const SearchProblem& problem, const SearchOptions& options = {});

}  // namespace trireme::sched
