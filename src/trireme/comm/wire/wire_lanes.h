// What stays of a group's channels over a wire between two openings.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace trireme::comm {

/// What has gone over a channel, counted from its start.
struct WireCredit {
  uint64_t messages = 0;
  uint64_t bytes = 0;
};

/// InvalidArgument: this end of a channel is open already.
[[noreturn]] void refuse_open_lane(int peer, int tag);

/// The channels of one group that begin at this rank, or those that end here. A Lane
/// has an atomic `open`, which its port sets to false when it goes.
template <class Lane>
class WireLanes {
 public:
  /// InvalidArgument if this end is open already.
  std::shared_ptr<Lane> open(int peer, int tag) {
    const std::lock_guard lock(mutex_);
    auto& lane = lanes_[{peer, tag}];
    if (!lane)
      lane = std::make_shared<Lane>();
    if (lane->open.exchange(true))
      refuse_open_lane(peer, tag);
    return lane;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::shared_ptr<Lane>> lanes_;
};

}  // namespace trireme::comm
