#include "trireme/sched/channels.h"

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
  std::map<std::tuple<int, int, bool>, int> numbers;
  const auto number = [&](int from, int to, bool forward) {
    const auto [found, added] = numbers.emplace(
        std::tuple(from, to, forward), static_cast<int>(channels_.size()));
    if (added)
      channels_.push_back({.from = from, .to = to, .forward = forward});
    return found->second;
  };
  const auto add = [&](int source, int target, bool forward) {
    const int channel = number(schedule.owner(source), schedule.owner(target), forward);
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
