// The channels of a lowered schedule: which messages go from which rank to which.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/sched/costs.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// Messages keep their order on a channel, and channels are independent of one another.
/// There is one for each pair of ranks and kind of message; and one more for each extra
/// edge, whose messages are received later than they could be, after others of their
/// ranks.
struct Channel {
  int from = 0;
  int to = 0;
  /// Activations; otherwise gradients.
  bool forward = true;
  /// The stages of an extra edge.
  int from_stage = -1;
  int to_stage = -1;
};

/// Which channels each stage's sends and receives use.
class ChannelMap {
 public:
  explicit ChannelMap(const Schedule& schedule);

  const std::vector<Channel>& channels() const { return channels_; }

  /// A channel, and the stage at its other end.
  struct Use {
    int channel = 0;
    int other = 0;
  };
  /// What a send or receive of a stage does, in this order: sends to the nearest stage
  /// first, receives from the farthest. Empty for other kinds.
  const std::vector<Use>& uses(const Action& action) const;

 private:
  std::vector<Channel> channels_;
  /// By kind of message (four) and stage.
  std::vector<std::vector<Use>> uses_[4];
  std::vector<Use> none_;
};

/// What each channel's messages travel on.
std::vector<Link> links_of(const ChannelMap& map, const Costs& costs);

}  // namespace trireme::sched
