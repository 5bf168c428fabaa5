// What the ends of channels say.
#include "trireme/comm/channel_text.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

const Deadline kDeadline = Deadline::after(std::chrono::milliseconds(250));

TEST(ChannelText, AFullChannelSaysHowFull) {
  EXPECT_EQ(
      channel_full_text(
          {.rank = 3, .tag = 7},
          100,
          {.messages = 2,
           .bytes = 640,
           .options = {.capacity_messages = 4, .capacity_bytes = 700}},
          kDeadline),
      "[comm] expected room for 100 bytes in the channel to rank 3 (tag 7) within 250 "
      "ms, but it is full: 640 of 700 bytes are not given back (2 of 4 messages wait "
      "to be received); receive more, drop received tensors, or raise capacity_bytes");
}

TEST(ChannelText, AFullChannelSaysWhichLimitItHasReached) {
  EXPECT_EQ(
      channel_full_text(
          {.rank = 3, .tag = 7},
          100,
          {.messages = 4,
           .bytes = 64,
           .options = {.capacity_messages = 4, .capacity_bytes = 700}},
          kDeadline),
      "[comm] expected room for 100 bytes in the channel to rank 3 (tag 7) within 250 "
      "ms, but it is full: 4 of 4 messages wait to be received; receive more, or raise "
      "capacity_messages");
}

TEST(ChannelText, AThreadWithoutATurnIsTold) {
  EXPECT_EQ(
      turn_missing_text({.rank = 1, .tag = 2}, kDeadline),
      "[comm] expected this thread's turn at the channel with rank 1 (tag 2) within "
      "250 ms, but another thread still waits there; give each thread a channel of its "
      "own, or allow more time");
}

TEST(ChannelText, AMissingMessageIsNamed) {
  EXPECT_EQ(
      message_missing_text({.rank = 1, .tag = 0}, 5, "it did not come", kDeadline),
      "[comm] expected message 5 from rank 1 (tag 0) within 250 ms, but it did not "
      "come; "
      "look at that rank, or allow more time");
}

TEST(ChannelFill, HasRoomForOneMessageAtLeast) {
  const ChannelOptions options{.capacity_messages = 2, .capacity_bytes = 100};
  EXPECT_TRUE((ChannelFill{0, 0, options}.has_room(1000)));
  EXPECT_TRUE((ChannelFill{1, 60, options}.has_room(40)));
  EXPECT_FALSE((ChannelFill{1, 60, options}.has_room(41)));
  EXPECT_FALSE((ChannelFill{2, 0, options}.has_room(0)));
}

TEST(ChannelText, CapacityHasLimits) {
  check_capacity({});
  EXPECT_THROW(check_capacity({.capacity_messages = 0}), InvalidArgument);
  EXPECT_THROW(check_capacity({.capacity_messages = (1 << 20) + 1}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::comm
