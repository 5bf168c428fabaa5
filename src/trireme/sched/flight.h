// When the messages of a lowered schedule are sent and received, as far as the lists
// themselves tell.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/sched/channels.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

struct Buffers;

/// The places of all sends and receives, by channel.
class Flights {
 public:
  Flights(const Schedule& lowered, const ChannelMap& map);

  /// The messages that are sent on a channel.
  int64_t messages(size_t channel) const {
    return static_cast<int64_t>(ends_[channel].sends.size());
  }

  /// Empty if every channel's messages are received in the order in which they are
  /// sent, none missing; else the first that is not, in words.
  std::string disorder() const;

  /// For each channel the most messages that can be sent and not yet received, in
  /// whatever order the ranks get their turns: exact with unbounded buffers, up to 2^27
  /// messages x ranks; beyond that, and with bounded ones, at most so many. The program
  /// must run to its end.
  std::vector<int64_t> most_in_flight(const Buffers& buffers) const;

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
  std::string mismatch(size_t channel, size_t k) const;
  std::vector<std::vector<uint32_t>> progress_by_neighbours() const;

  const Schedule& lowered_;
  const ChannelMap& map_;
  std::vector<Ends> ends_;
};

}  // namespace trireme::sched
