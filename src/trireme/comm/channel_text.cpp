#include "trireme/comm/channel_text.h"

#include "trireme/core/error.h"

namespace trireme::comm {

void check_capacity(const ChannelOptions& options) {
  constexpr int kMost = 1 << 20;
  if (options.capacity_messages < 1 || options.capacity_messages > kMost)
    throw InvalidArgument(text(
        "[comm] expected capacity_messages from 1 to ",
        kMost,
        ", got ",
        options.capacity_messages));
}

std::string channel_full_text(
    const ChannelPeer& to,
    size_t bytes,
    const ChannelFill& fill,
    const Deadline& deadline) {
  return text(
      "[comm] expected room for ",
      bytes,
      " bytes in the channel to rank ",
      to.rank,
      " (tag ",
      to.tag,
      ") within ",
      deadline.allowed().count(),
      " ms, but it is full: ",
      fill.messages,
      " of ",
      fill.options.capacity_messages,
      " messages wait to be received, and ",
      fill.bytes,
      " of ",
      fill.options.capacity_bytes,
      " bytes are not given back; receive more, drop received tensors, or raise "
      "ChannelOptions");
}

std::string message_missing_text(
    const ChannelPeer& from,
    uint64_t index,
    const std::string& reason,
    const Deadline& deadline) {
  return text(
      "[comm] expected message ",
      index,
      " from rank ",
      from.rank,
      " (tag ",
      from.tag,
      ") within ",
      deadline.allowed().count(),
      " ms, but ",
      reason,
      "; look at that rank, or allow more time");
}

}  // namespace trireme::comm
