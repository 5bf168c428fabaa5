#include "trireme/net/send_queue.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::net {
namespace {

std::vector<std::byte> zeros(std::size_t bytes) {
  return std::vector<std::byte>(bytes);
}

/// A queue whose messages tell when they have arrived.
class SendQueueTest : public ::testing::Test {
 protected:
  SendQueueTest() { queue_.open(limits_, false); }
  void push(std::uint64_t request, std::size_t body) {
    memory_.push_back(zeros(body));
    OutMessage message{
        .envelope = {.request = request}, .done = [this, request](bool arrived) {
          (arrived ? arrived_ : lost_).push_back(request);
        }};
    if (body > 0)
      message.body.push_back(memory_.back());
    queue_.push(std::move(message));
  }
  /// The next frame as "M7" (of request 7) or "C3@262144" (of the message from frame
  /// 3).
  std::string next() {
    OutFrame out;
    if (!queue_.next(out))
      return "";
    return out.frame.kind == FrameKind::Message
               ? text("M", out.frame.id)
               : text("C", out.frame.id, "@", out.frame.body);
  }
  void ack(std::uint64_t sequence) {
    Finished finished;
    queue_.acknowledged(sequence, finished);
    for (const auto& one : finished)
      one->message.done(true);
  }
  Limits limits_{.small_window = 4096, .large_window = std::size_t{1} << 20};
  SendQueue queue_;
  std::deque<std::vector<std::byte>> memory_;
  std::vector<std::uint64_t> arrived_, lost_;
};

TEST_F(SendQueueTest, SmallMessagesGoBetweenTheChunksOfALargeOne) {
  push(1, 600 << 10);
  EXPECT_EQ(next(), "M1");
  push(2, 10);
  EXPECT_EQ(next(), "M2");
  EXPECT_EQ(next(), "C1@262144");
  push(3, 0);
  EXPECT_EQ(next(), "M3");
  EXPECT_EQ(next(), "C1@524288");
  EXPECT_EQ(next(), "");
}

TEST_F(SendQueueTest, ArrivedMeansAllOfIt) {
  push(1, 300 << 10);
  push(2, 10);
  next(), next(), next();  // M2, M1, C1
  ack(2);
  EXPECT_EQ(arrived_, (std::vector<std::uint64_t>{2}));
  EXPECT_FALSE(queue_.idle());
  ack(3);
  EXPECT_EQ(arrived_, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_TRUE(queue_.idle());
  EXPECT_EQ(queue_.queued_bytes(), 0u);
}

TEST_F(SendQueueTest, ALaneWaitsForCreditAndTheOtherDoesNot) {
  push(1, 900 << 10);
  push(2, 900 << 10);
  EXPECT_EQ(next(), "M1");
  while (!next().empty()) {
  }
  push(3, 10);
  EXPECT_EQ(next(), "M3");
  EXPECT_EQ(next(), "");
  queue_.released(0, message_cost(0, 900 << 10));
  EXPECT_EQ(next(), "M2");
}

TEST_F(SendQueueTest, AMessageAboveTheWindowGoesAlone) {
  push(1, 3 << 20);
  push(2, 3 << 20);
  int frames = 0;
  while (!next().empty())
    ++frames;
  EXPECT_EQ(frames, 12);
  queue_.released(0, message_cost(0, 3 << 20));
  EXPECT_EQ(next(), "M2");
}

TEST_F(SendQueueTest, WhatWasNotReceivedGoesAgainInTheSameOrder) {
  push(1, 300 << 10);
  next();
  push(2, 1);
  next();
  Finished finished;
  queue_.rewind(1, finished);
  EXPECT_EQ(next(), "M2");
  EXPECT_EQ(next(), "C1@262144");
  EXPECT_EQ(next(), "");
}

TEST_F(SendQueueTest, StatesThatCannotBeAreRefused) {
  push(1, 1);
  Finished finished;
  EXPECT_THROW(queue_.acknowledged(1, finished), InvalidArgument);  // not written yet
  next();
  EXPECT_THROW(queue_.acknowledged(2, finished), InvalidArgument);
  EXPECT_THROW(queue_.released(10000, 0), InvalidArgument);
  EXPECT_NO_THROW(queue_.acknowledged(1, finished));
}

TEST_F(SendQueueTest, TooLargeIsRefusedBeforeItIsTaken) {
  queue_.open({.header_bytes = 4, .body_bytes = 100}, false);
  EXPECT_THROW(push(1, 101), InvalidArgument);
  EXPECT_THROW(queue_.push({.envelope = {.header = "12345"}}), InvalidArgument);
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, WhatIsAbandonedIsToldOnce) {
  push(1, 600 << 10);
  push(2, 1);
  next(), next();  // 1 is under way, in its lane and among those sent
  push(3, 1);
  Finished finished;
  queue_.abandon(finished);
  for (const auto& one : finished)
    one->message.done(false);
  std::sort(lost_.begin(), lost_.end());
  EXPECT_EQ(lost_, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(SendQueueTest, ABodyMayLieInManyPieces) {
  std::vector<std::byte> bytes = zeros(1000);
  OutMessage message;
  for (std::size_t at = 0; at < bytes.size(); at += 10)
    message.body.push_back(std::span(bytes).subspan(at, 10));
  message.body.insert(message.body.begin() + 3, std::span<const std::byte>());
  queue_.push(std::move(message));
  OutFrame out;
  ASSERT_TRUE(queue_.next(out));
  EXPECT_EQ(out.payload.size(), 100u);
  EXPECT_EQ(out.frame.payload_bytes, 1000u);
}

}  // namespace
}  // namespace trireme::net
