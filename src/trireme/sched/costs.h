// What a schedule's actions cost: given, measured, or all the same.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// The costs of one stage and microbatch; times in any unit, the same for all.
struct StageCosts {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  /// A fused backward, which is often cheaper than its parts.
  double backward = 2;
  /// What F keeps until the backward.
  double activation_bytes = 1;
  /// What the stage takes all the time.
  double weight_bytes = 0;

  /// All of its time a microbatch.
  double time() const { return forward + backward; }
};

/// A way between two ranks.
struct Link {
  int from = 0;
  int to = 0;
  double latency = 0;
  /// Bytes a unit of time.
  double bandwidth = std::numeric_limits<double>::infinity();
};

/// All of them.
struct Costs {
  /// One a stage, or one for all of them.
  std::vector<StageCosts> stages{1};
  /// What is not here has `link`.
  std::vector<Link> links;
  Link link;
  /// The size of an activation, and of its gradient, on its way.
  double message_bytes = 0;
  /// The part of the shorter half of an overlap that is saved: 0 none, 1 all of it.
  double overlap_gain = 0;

  const StageCosts& stage(int number) const {
    return stages[stages.size() == 1 ? 0 : static_cast<size_t>(number)];
  }
};

/// InvalidArgument unless there are costs for `stages` stages, every time is a number
/// of at least 0, and links are between ranks that exist, one for each way.
void check_costs(const Costs& costs, int stages, int ranks);

/// The time of one computation.
double cost_of(const Action& action, const Costs& costs);

}  // namespace trireme::sched
