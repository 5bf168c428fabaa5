#include "trireme/sched/channels.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

namespace trireme::sched {
namespace {

// SendForward, ReceiveForward, SendBackward and ReceiveBackward follow one another.
size_t slot(ActionKind kind) {
  return static_cast<size_t>(kind) - static_cast<size_t>(ActionKind::SendForward);
}

}  // namespace

ChannelMap::ChannelMap(const Schedule& schedule) {
  for (auto& by_stage : uses_)
    by_stage.resize(schedule.rank_of_stage.size());
  std::map<std::tuple<int, int, bool, int, int>, int> numbers;
  const auto number = [&](const Channel& c) {
    const auto [found, added] = numbers.emplace(
        std::tuple(c.from, c.to, c.forward, c.from_stage, c.to_stage),
        static_cast<int>(channels_.size()));
    if (added)
      channels_.push_back(c);
    return found->second;
  };
  const auto add = [&](int source, int target, bool forward) {
    const bool extra = std::abs(target - source) != 1;
    const int channel = number(
        {.from = schedule.owner(source),
         .to = schedule.owner(target),
         .forward = forward,
         .from_stage = extra ? source : -1,
         .to_stage = extra ? target : -1});
    const size_t send =
        slot(forward ? ActionKind::SendForward : ActionKind::SendBackward);
    uses_[send][static_cast<size_t>(source)].push_back({channel, target});
    uses_[send + 1][static_cast<size_t>(target)].push_back({channel, source});
  };
  const StageGraph graph(schedule);
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (const int next : graph.after(stage))
      if (schedule.owner(stage) != schedule.owner(next)) {
        add(stage, next, true);
        add(next, stage, false);
      }
  // The nearest stage is the next one to need a message, and the farthest was the first
  // to send one: in this order they wait least for one another.
  for (size_t kind = 0; kind < 4; ++kind)
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      auto& uses = uses_[kind][static_cast<size_t>(stage)];
      std::stable_sort(uses.begin(), uses.end(), [&](const Use& a, const Use& b) {
        const int near = std::abs(a.other - stage), far = std::abs(b.other - stage);
        return kind % 2 == 0 ? near < far : near > far;
      });
    }
}

const std::vector<ChannelMap::Use>& ChannelMap::uses(const Action& action) const {
  if (!is_send(action.kind()) && !is_receive(action.kind()))
    return none_;
  return uses_[slot(action.kind())][static_cast<size_t>(action.stage())];
}

std::vector<Link> links_of(const ChannelMap& map, const Costs& costs) {
  std::map<std::pair<int, int>, Link> known;
  for (const Link& link : costs.links)
    known.emplace(std::pair(link.from, link.to), link);
  std::vector<Link> links;
  links.reserve(map.channels().size());
  for (const Channel& channel : map.channels()) {
    const auto found = known.find({channel.from, channel.to});
    links.push_back(found == known.end() ? costs.link : found->second);
  }
  return links;
}

}  // namespace trireme::sched
