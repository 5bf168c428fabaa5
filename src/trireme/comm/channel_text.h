// What the ends of a channel say when they cannot go on: the same words in every
// backend.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "trireme/comm/engine.h"
#include "trireme/core/deadline.h"

namespace trireme::comm {

/// The other end of a channel.
struct ChannelPeer {
  /// Counted in the world.
  int rank = 0;
  int tag = 0;
};

/// How much a channel holds against how much it may hold.
struct ChannelFill {
  uint64_t messages = 0;
  size_t bytes = 0;
  ChannelOptions options;

  /// Whether so many bytes find room; a single message always does.
  bool has_room(size_t more) const {
    return messages == 0 ||
           (messages < static_cast<uint64_t>(options.capacity_messages) &&
            bytes + more <= options.capacity_bytes);
  }
};

/// InvalidArgument unless capacity_messages makes sense.
void check_capacity(const ChannelOptions& options);

/// The text of the TimeoutError of a full channel: `bytes` found no room.
std::string channel_full_text(
    const ChannelPeer& to,
    size_t bytes,
    const ChannelFill& fill,
    const Deadline& deadline);

/// The text of the TimeoutError of a thread that found another one at its end of the
/// channel all the time.
std::string turn_missing_text(const ChannelPeer& with, const Deadline& deadline);

/// The text of the TimeoutError for message number `index` (from 1), with what is known
/// of the reason: "it did not come".
std::string message_missing_text(
    const ChannelPeer& from,
    uint64_t index,
    const std::string& reason,
    const Deadline& deadline);

}  // namespace trireme::comm
