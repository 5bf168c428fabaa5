#include "trireme/sched/costs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trireme/core/error.h"

namespace trireme::sched {
namespace {

void check_number(const std::string& what, double value, bool infinite = false) {
  if (std::isnan(value) || value < 0 || (std::isinf(value) && !infinite))
    throw InvalidArgument(
        text("[sched] wanted ", what, " to be a number of at least 0, got ", value));
}

void check_stage(const StageCosts& costs, const std::string& stage) {
  check_number(text("forward of ", stage), costs.forward);
  check_number(text("input_grad of ", stage), costs.input_grad);
  check_number(text("weight_grad of ", stage), costs.weight_grad);
  check_number(text("backward of ", stage), costs.backward);
  check_number(text("activation_bytes of ", stage), costs.activation_bytes);
  check_number(text("weight_bytes of ", stage), costs.weight_bytes);
}

void check_link(const Link& link, const std::string& name) {
  check_number(text("the latency of ", name), link.latency);
  check_number(text("the bandwidth of ", name), link.bandwidth, true);
  if (link.bandwidth == 0)
    throw InvalidArgument(
        text("[sched] wanted the bandwidth of ", name, " to be above 0, got 0"));
}

}  // namespace

void check_costs(const Costs& costs, int stages, int ranks) {
  if (costs.stages.size() != 1 && costs.stages.size() != static_cast<size_t>(stages))
    throw InvalidArgument(text(
        "[sched] wanted the costs of ",
        stages,
        " stages (or of one, for all), got ",
        costs.stages.size()));
  for (size_t i = 0; i < costs.stages.size(); ++i)
    check_stage(costs.stages[i], text("stage ", i));
  check_link(costs.link, "the links");
  std::set<std::pair<int, int>> known;
  for (const Link& link : costs.links) {
    const std::string name = text("the link from rank ", link.from, " to ", link.to);
    check_link(link, name);
    if (link.from < 0 || link.to < 0 || link.from >= ranks || link.to >= ranks)
      throw InvalidArgument(
          text("[sched] wanted links between ranks 0 to ", ranks - 1, ", got ", name));
    if (!known.emplace(link.from, link.to).second)
      throw InvalidArgument(text("[sched] wanted every link once, got twice ", name));
  }
  check_number("message_bytes", costs.message_bytes);
  check_number("overlap_gain", costs.overlap_gain);
  if (costs.overlap_gain > 1)
    throw InvalidArgument(
        text("[sched] wanted overlap_gain from 0 to 1, got ", costs.overlap_gain));
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
