#include "trireme/sched/message_order.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"

namespace trireme::sched {

MessageOrder::MessageOrder(const Schedule& lowered, const ChannelMap& map)
    : map_(map), ends_(map.channels().size()) {
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

std::string MessageOrder::first_mismatch() const {
  for (size_t c = 0; c < ends_.size(); ++c) {
    const Ends& ends = ends_[c];
    const size_t both = std::min(ends.sends.size(), ends.receives.size());
    for (size_t k = 0; k < both; ++k) {
      const Place &sent = ends.sends[k], &received = ends.receives[k];
      if (sent.microbatch != received.microbatch ||
          sent.to_stage != received.to_stage || sent.from_stage != received.from_stage)
        return describe_mismatch(c, k);
    }
    if (ends.sends.size() != ends.receives.size())
      return describe_mismatch(c, both);
  }
  return {};
}

std::string MessageOrder::describe_mismatch(size_t channel, size_t k) const {
  const Channel& edge = map_.channels()[channel];
  const Ends& ends = ends_[channel];
  const auto place_text = [&](const std::vector<Place>& places,
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
      place_text(ends.sends, true),
      " but received by ",
      place_text(ends.receives, false),
      "; a channel keeps its order");
}

}  // namespace trireme::sched
