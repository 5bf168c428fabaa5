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
        options.capacity_messages,
        "; choose one of these"));
}

std::string channel_full_text(
    const ChannelPeer& to,
    size_t bytes,
    const ChannelFill& fill,
    const Deadline& deadline) {
  const bool of_messages =
      fill.messages >= static_cast<uint64_t>(fill.options.capacity_messages);
  const std::string waiting = text(
      fill.messages,
      " of ",
      fill.options.capacity_messages,
      " messages wait to be received");
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
      of_messages ? text(waiting, "; receive more, or raise capacity_messages")
                  : text(
                        fill.bytes,
                        " of ",
                        fill.options.capacity_bytes,
                        " bytes are not given back (",
                        waiting,
                        "); receive more, drop received tensors, or raise "
                        "capacity_bytes"));
}

std::string turn_missing_text(const ChannelPeer& with, const Deadline& deadline) {
  return text(
      "[comm] expected this thread's turn at the channel with rank ",
      with.rank,
      " (tag ",
      with.tag,
      ") within ",
      deadline.allowed().count(),
      " ms, but another thread still waits there; give each thread a channel of its "
      "own, or allow more time");
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
