#include "trireme/pipe/action_costs.h"

#include <algorithm>

#include "trireme/pipe/median.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

}  // namespace

void ActionCosts::add(const StepReport& step) {
  for (const auto& rank : step.measured.timeline)
    for (const sched::Timed& one : rank)
      seconds_[{one.action.stage(), one.action.kind()}].push_back(one.end - one.start);
  for (const Timeline& timeline : step.timelines)
    add_kept(timeline.actions);
  add_travel(step.timelines);
}

/// What a forward has left behind: after its output has been sent, if it is.
void ActionCosts::add_kept(const std::vector<ActionTime>& actions) {
  int64_t before = 0;
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i].action;
    if (action.kind() == ActionKind::Forward) {
      const Action send(ActionKind::SendForward, action.stage(), action.microbatch());
      const bool sent = i + 1 < actions.size() && actions[i + 1].action == send;
      const int64_t after = actions[sent ? i + 1 : i].live_bytes;
      kept_bytes_[action.stage()].push_back(
          static_cast<double>(std::max<int64_t>(0, after - before)));
    }
    before = actions[i].live_bytes;
  }
}

void ActionCosts::add_travel(const std::vector<Timeline>& timelines) {
  struct Send {
    int rank;
    int64_t start_ns;
  };
  std::map<std::pair<int, int>, Send> sends;
  for (size_t rank = 0; rank < timelines.size(); ++rank)
    for (const ActionTime& one : timelines[rank].actions)
      if (one.action.kind() == ActionKind::SendForward)
        sends[{one.action.stage() + 1, one.action.microbatch()}] = {
            static_cast<int>(rank), one.start_ns};
  for (size_t rank = 0; rank < timelines.size(); ++rank)
    for (const ActionTime& one : timelines[rank].actions) {
      const auto sent = sends.find({one.action.stage(), one.action.microbatch()});
      // Only where the receiver was there first; otherwise the message has waited.
      if (one.action.kind() == ActionKind::ReceiveForward && sent != sends.end() &&
          one.start_ns < sent->second.start_ns)
        travel_[{sent->second.rank, static_cast<int>(rank)}].push_back(
            static_cast<double>(one.end_ns - sent->second.start_ns) * 1e-9);
    }
}

double ActionCosts::seconds(int stage, ActionKind kind) const {
  const auto found = seconds_.find({stage, kind});
  return found == seconds_.end() ? 0 : median(found->second);
}

sched::StageCosts ActionCosts::of_stage(int stage, double weight_bytes) const {
  const auto kept = kept_bytes_.find(stage);
  return {
      .forward = seconds(stage, ActionKind::Forward),
      .input_grad = seconds(stage, ActionKind::InputGrad),
      .weight_grad = seconds(stage, ActionKind::WeightGrad),
      .backward = seconds(stage, ActionKind::Backward),
      .activation_bytes = kept == kept_bytes_.end() ? 0 : median(kept->second),
      .weight_bytes = weight_bytes};
}

std::vector<sched::Link> ActionCosts::links() const {
  std::map<std::pair<int, int>, double> latency;
  for (const auto& [ends, seconds] : travel_)
    latency[ends] = median(seconds);
  // The way back is as long, unless it was seen too.
  for (const auto& [ends, seconds] : travel_)
    latency.emplace(std::pair{ends.second, ends.first}, latency[ends]);
  std::vector<sched::Link> all;
  for (const auto& [ends, seconds] : latency)
    all.push_back({.from = ends.first, .to = ends.second, .latency = seconds});
  return all;
}

}  // namespace trireme::pipe
