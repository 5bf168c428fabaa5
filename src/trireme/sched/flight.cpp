#include "trireme/sched/flight.h"

#include <algorithm>
#include <map>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/knowledge.h"
#include "trireme/sched/prove.h"

namespace trireme::sched {

Flights::Flights(const Schedule& lowered, const ChannelMap& map)
    : lowered_(lowered), map_(map), ends_(map.channels().size()) {
  for (const auto& list : lowered.actions)
    for (size_t step = 0; step < list.size(); ++step) {
      const Action& action = list[step];
      const bool send = is_send(action.kind());
      for (const ChannelMap::Use& use : map.uses(action)) {
        Ends& ends = ends_[static_cast<size_t>(use.channel)];
        (send ? ends.sends : ends.receives)
            .push_back(
                {.step = static_cast<uint32_t>(step),
                 .microbatch = action.microbatch(),
                 .to_stage = send ? use.other : action.stage(),
                 .from_stage = send ? action.stage() : use.other});
      }
    }
}

std::string Flights::disorder() const {
  for (size_t c = 0; c < ends_.size(); ++c) {
    const Ends& ends = ends_[c];
    const size_t both = std::min(ends.sends.size(), ends.receives.size());
    for (size_t k = 0; k < both; ++k) {
      const Place &sent = ends.sends[k], &received = ends.receives[k];
      if (sent.microbatch != received.microbatch ||
          sent.to_stage != received.to_stage || sent.from_stage != received.from_stage)
        return mismatch(c, k);
    }
    if (ends.sends.size() != ends.receives.size())
      return mismatch(c, both);
  }
  return {};
}

std::string Flights::mismatch(size_t channel, size_t k) const {
  const Channel& edge = map_.channels()[channel];
  const Ends& ends = ends_[channel];
  const auto describe = [&](const std::vector<Place>& places,
                            bool send) -> std::string {
    if (k >= places.size())
      return "nothing more";
    const Place& place = places[k];
    const ActionKind kind =
        send
            ? (edge.forward ? ActionKind::SendForward : ActionKind::SendBackward)
            : (edge.forward ? ActionKind::ReceiveForward : ActionKind::ReceiveBackward);
    return text(
        to_string({kind, send ? place.from_stage : place.to_stage, place.microbatch}),
        " (step ",
        place.step,
        ")");
  };
  return text(
      "message ",
      k,
      edge.forward ? " of the activations" : " of the gradients",
      " from rank ",
      edge.from,
      " to rank ",
      edge.to,
      " is sent by ",
      describe(ends.sends, true),
      " but received by ",
      describe(ends.receives, false),
      "; a channel keeps its order");
}

std::vector<int64_t> Flights::most_in_flight(const Buffers& buffers) const {
  // Clocks of all ranks for every message are exact; where they would take long, what
  // neighbours tell each other is a bound.
  constexpr int64_t kMostClocks = int64_t{1} << 27;
  int64_t clocks = 0;
  for (const Ends& ends : ends_)
    clocks += static_cast<int64_t>(ends.sends.size()) * lowered_.ranks();
  const auto progress = clocks <= kMostClocks ? receiver_progress(lowered_, map_)
                                              : progress_by_neighbours();
  std::vector<int64_t> most(ends_.size());
  for (size_t c = 0; c < ends_.size(); ++c) {
    size_t known = 0;  // receives that the sender knows of
    for (size_t k = 0; k < ends_[c].sends.size(); ++k) {
      while (known < ends_[c].receives.size() &&
             ends_[c].receives[known].step < progress[c][k])
        ++known;
      most[c] = std::max(most[c], static_cast<int64_t>(k + 1 - std::min(known, k)));
    }
    if (buffers.messages >= 0)
      most[c] = std::min<int64_t>(most[c], std::max(1, buffers.messages));
  }
  return most;
}

// Up to where a receiver must have come when it sent the last message that came back.
std::vector<std::vector<uint32_t>> Flights::progress_by_neighbours() const {
  std::map<std::pair<int, int>, std::vector<size_t>> between;
  for (size_t c = 0; c < ends_.size(); ++c)
    between[{map_.channels()[c].from, map_.channels()[c].to}].push_back(c);
  std::vector<std::vector<uint32_t>> progress(ends_.size());
  for (size_t c = 0; c < ends_.size(); ++c) {
    const Channel& edge = map_.channels()[c];
    const auto& back = between[{edge.to, edge.from}];
    std::vector<size_t> heard(back.size());  // messages that came back before a send
    for (const Place& send : ends_[c].sends) {
      uint32_t reached = 0;
      for (size_t i = 0; i < back.size(); ++i) {
        const Ends& ends = ends_[back[i]];
        while (heard[i] < ends.receives.size() &&
               ends.receives[heard[i]].step < send.step)
          ++heard[i];
        if (heard[i] > 0)
          reached = std::max(reached, ends.sends[heard[i] - 1].step);
      }
      progress[c].push_back(reached);
    }
  }
  return progress;
}

}  // namespace trireme::sched
