// Whether the two ends of every channel agree on its messages and their order.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/sched/channels.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// The places of all sends and receives, by channel.
class MessageOrder {
 public:
  MessageOrder(const Schedule& lowered, const ChannelMap& map);

  /// The messages that are sent on a channel.
  int64_t messages(size_t channel) const {
    return static_cast<int64_t>(ends_[channel].sends.size());
  }

  /// Empty if every channel's messages are received in the order in which they are
  /// sent, none missing; else the first that is not, in words.
  std::string first_mismatch() const;

 private:
  /// The k-th message of a channel: places in the two lists, and what they carry.
  struct Place {
    uint32_t step = 0;
    int32_t microbatch = 0;
    int32_t to_stage = 0;
    int32_t from_stage = 0;
  };
  struct Ends {
    std::vector<Place> sends;
    std::vector<Place> receives;
  };
  std::string describe_mismatch(size_t channel, size_t k) const;

  const ChannelMap& map_;
  std::vector<Ends> ends_;
};

}  // namespace trireme::sched
