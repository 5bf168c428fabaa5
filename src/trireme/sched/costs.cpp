#include "trireme/sched/costs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trireme/core/error.h"

namespace trireme::sched {
namespace {

// `what` is what text() takes: words are made only where they are needed, since Auto
// has costs checked thousands of times.
template <class... What>
void check_number(double value, const What&... what) {
  if (!std::isfinite(value) || value < 0)
    throw InvalidArgument(text(
        "[sched] expected ",
        what...,
        " to be a number of at least 0, got ",
        value,
        "; correct it"));
}

void check_stage(const StageCosts& costs, size_t stage) {
  check_number(costs.forward, "forward of stage ", stage);
  check_number(costs.input_grad, "input_grad of stage ", stage);
  check_number(costs.weight_grad, "weight_grad of stage ", stage);
  check_number(costs.backward, "backward of stage ", stage);
  check_number(costs.activation_bytes, "activation_bytes of stage ", stage);
  check_number(costs.weight_bytes, "weight_bytes of stage ", stage);
}

template <class... Name>
void check_link(const Link& link, const Name&... name) {
  check_number(link.latency, "the latency of ", name...);
  if (!(link.bandwidth > 0))  // infinity is one, not a number is none
    throw InvalidArgument(text(
        "[sched] expected the bandwidth of ",
        name...,
        " to be above 0, got ",
        link.bandwidth,
        "; correct it"));
}

}  // namespace

void check_costs(const Costs& costs, int stages, int ranks) {
  if (costs.stages.size() != 1 && costs.stages.size() != static_cast<size_t>(stages))
    throw InvalidArgument(text(
        "[sched] expected the costs of ",
        stages,
        " stages (or of one, for all), got ",
        costs.stages.size(),
        "; give as many"));
  for (size_t i = 0; i < costs.stages.size(); ++i)
    check_stage(costs.stages[i], i);
  check_link(costs.link, "the links");
  std::set<std::pair<int, int>> known;
  for (const Link& link : costs.links) {
    check_link(link, "the link from rank ", link.from, " to ", link.to);
    const bool exists =
        link.from >= 0 && link.to >= 0 && link.from < ranks && link.to < ranks;
    if (!exists || !known.emplace(link.from, link.to).second)
      throw InvalidArgument(text(
          "[sched] expected links between ranks 0 to ",
          ranks - 1,
          ", every one once, got ",
          exists ? "twice the link" : "one",
          " from rank ",
          link.from,
          " to ",
          link.to,
          "; correct or drop it"));
  }
  check_number(costs.message_bytes, "message_bytes");
  check_number(costs.overlap_gain, "overlap_gain");
  if (costs.overlap_gain > 1)
    throw InvalidArgument(text(
        "[sched] expected overlap_gain from 0 to 1, got ",
        costs.overlap_gain,
        "; give a share"));
}

double cost_of(const Action& action, const Costs& costs) {
  const StageCosts& stage = costs.stage(action.stage());
  switch (action.kind()) {
    case ActionKind::Forward:
      return stage.forward;
    case ActionKind::Backward:
      return stage.backward;
    case ActionKind::InputGrad:
      return stage.input_grad;
    case ActionKind::WeightGrad:
      return stage.weight_grad;
    case ActionKind::Overlap: {
      const double forward = cost_of(action.forward_half(), costs);
      const double backward = cost_of(action.backward_half(), costs);
      return forward + backward - costs.overlap_gain * std::min(forward, backward);
    }
    default:
      return 0;
  }
}

}  // namespace trireme::sched
