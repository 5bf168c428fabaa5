#include "trireme/net/inbox.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/net/send_queue.h"

namespace trireme::net {
namespace {

const Inbox::Place nowhere = [](const Envelope&, std::size_t) {
  return std::span<std::byte>();
};

Frame message_of(std::uint64_t sequence, std::uint64_t body) {
  return {
      .kind = FrameKind::Message,
      .sequence = sequence,
      .body = body,
      .payload_bytes =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(body, kChunkBytes))};
}
Frame chunk_of(
    std::uint64_t sequence,
    std::uint64_t first,
    std::uint64_t offset,
    std::uint32_t bytes) {
  return {
      .kind = FrameKind::Chunk,
      .sequence = sequence,
      .id = first,
      .body = offset,
      .payload_bytes = bytes};
}

TEST(Inbox, PutsALargeMessageTogether) {
  BufferPool pool;
  Inbox inbox({}, pool);
  const auto first = inbox.begin(message_of(1, 300'000), "head", nowhere);
  ASSERT_EQ(first.size(), kChunkBytes);
  first[5] = std::byte{42};
  EXPECT_FALSE(inbox.end());
  // A small one between.
  EXPECT_TRUE(inbox.begin(message_of(2, 0), "small", nowhere).empty());
  const auto small = inbox.end();
  ASSERT_TRUE(small);
  EXPECT_EQ(small->envelope.header, "small");
  EXPECT_EQ(
      inbox.begin(chunk_of(3, 1, kChunkBytes, 300'000 - kChunkBytes), "", nowhere)
          .size(),
      300'000 - kChunkBytes);
  const auto large = inbox.end();
  ASSERT_TRUE(large);
  EXPECT_EQ(large->body.size(), 300'000u);
  EXPECT_EQ(large->body[5], std::byte{42});
  EXPECT_EQ(large->envelope.header, "head");
  EXPECT_EQ(inbox.received(), 3u);
}

TEST(Inbox, WhatCannotComeIsRefused) {
  BufferPool pool;
  const auto refused = [&](const std::vector<Frame>& good, const Frame& bad) {
    Inbox inbox({.small_window = 2000, .large_window = 400'000}, pool);
    for (const Frame& frame : good)
      inbox.begin(frame, "", nowhere), inbox.end();
    EXPECT_THROW(inbox.begin(bad, "", nowhere), InvalidArgument);
  };
  refused({}, message_of(2, 10));                             // a gap
  refused({}, chunk_of(1, 1, 0, 10));                         // no beginning
  refused({message_of(1, 300'000)}, message_of(2, 300'000));  // two large at once
  refused({message_of(1, 300'000)}, chunk_of(2, 7, kChunkBytes, 10));
  refused({message_of(1, 300'000)}, chunk_of(2, 1, 0, 10));  // the wrong part
  refused({message_of(1, 300'000)}, chunk_of(2, 1, kChunkBytes, 100'000));  // too much
  refused({message_of(1, 1000)}, message_of(2, 1000));  // above the window
  refused({message_of(1, 100'000)}, message_of(2, 350'000));
}

TEST(Inbox, AFrameThatWasHereGoesNowhere) {
  BufferPool pool;
  Inbox inbox({}, pool);
  inbox.begin(message_of(1, 10), "", nowhere), inbox.end();
  EXPECT_TRUE(inbox.begin(message_of(1, 10), "", nowhere).empty());
  EXPECT_FALSE(inbox.end());
  EXPECT_EQ(inbox.received(), 1u);
}

TEST(Inbox, AFirstFrameThatWasCutOffKeepsItsPlace) {
  BufferPool pool;
  Inbox inbox({}, pool);
  std::vector<std::byte> memory(1000);
  int asked = 0;
  const Inbox::Place place = [&](const Envelope&, std::size_t) {
    return ++asked, std::span(memory);
  };
  inbox.begin(message_of(1, 1000), "", place);
  inbox.forget_frame();
  EXPECT_EQ(inbox.begin(message_of(1, 1000), "", place).data(), memory.data());
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(inbox.end());
}

TEST(Inbox, APlaceOfTheWrongSizeIsRefused) {
  BufferPool pool;
  Inbox inbox({}, pool);
  std::vector<std::byte> memory(10);
  EXPECT_THROW(
      inbox.begin(
          message_of(1, 1000),
          "",
          [&](const Envelope&, std::size_t) { return std::span(memory); }),
      InvalidArgument);
}

/// A queue and an inbox with a wire between them that breaks where it likes.
class BrokenWire {
 public:
  explicit BrokenWire(unsigned seed) : random_(seed), inbox_(limits_, pool_) {
    queue_.open(limits_, false);
  }

  void run(std::uint64_t messages) {
    for (int turn = 0; turn < 100'000 && received_.size() < messages; ++turn) {
      if (pushed_ < messages && random_() % 3 == 0)
        push();
      random_() % 40 == 0 ? reconnect() : carry();
    }
    ASSERT_EQ(received_.size(), messages);
    // Each lane is in order, nothing came twice, nothing is missing.
    for (const bool small : {true, false}) {
      std::vector<std::uint64_t> lane;
      for (const std::uint64_t one : received_)
        if ((size_of(one) <= limits_.small_bytes) == small)
          lane.push_back(one);
      EXPECT_TRUE(std::is_sorted(lane.begin(), lane.end()));
    }
    std::sort(received_.begin(), received_.end());
    EXPECT_EQ(std::adjacent_find(received_.begin(), received_.end()), received_.end());
  }

 private:
  static std::size_t size_of(std::uint64_t request) {
    return request % 3 == 0 ? 300'000 + request * 1000 : request * 7;
  }
  void push() {
    const std::uint64_t request = pushed_++;
    memory_.emplace_back(size_of(request), static_cast<std::byte>(request));
    queue_.push({.envelope = {.request = request}, .body = {memory_.back()}});
  }
  // One frame across, whole or cut off in the middle.
  void carry() {
    OutFrame out;
    if (!queue_.next(out))
      return let_go();
    const auto place = inbox_.begin(out.frame, "", nowhere);
    if (random_() % 20 == 0)
      return reconnect();
    std::size_t at = 0;
    for (const iovec& part : out.payload) {
      if (!place.empty())
        std::memcpy(place.data() + at, part.iov_base, part.iov_len);
      at += part.iov_len;
    }
    if (auto message = inbox_.end()) {
      const std::uint64_t request = message->envelope.request;
      EXPECT_EQ(message->body.size(), size_of(request));
      EXPECT_TRUE(
          std::all_of(message->body.begin(), message->body.end(), [&](std::byte b) {
            return b == static_cast<std::byte>(request);
          }));
      received_.push_back(request);
      held_.push_back(inbox_.last_cost());
    }
    if (random_() % 5 == 0)
      acknowledge();
    if (random_() % 4 == 0)
      let_go();
  }
  void let_go() {
    for (const Inbox::Cost& cost : held_)
      released_[cost.small ? 0 : 1] += cost.bytes;
    held_.clear();
    inbox_.set_released(released_[0], released_[1]);
    queue_.released(released_[0], released_[1]);
  }
  void acknowledge() {
    Finished finished;
    queue_.acknowledged(inbox_.received(), finished);
  }
  void reconnect() {
    inbox_.forget_frame();
    Finished finished;
    queue_.rewind(inbox_.received(), finished);
  }

  Limits limits_{.small_window = 5000, .large_window = 500'000};
  std::mt19937 random_;
  BufferPool pool_;
  SendQueue queue_;
  Inbox inbox_;
  std::deque<std::vector<std::byte>> memory_;
  std::uint64_t pushed_ = 0;
  std::vector<std::uint64_t> received_;
  std::vector<Inbox::Cost> held_;
  std::uint64_t released_[2] = {0, 0};
};

TEST(Inbox, NothingIsLostOrDoubledOverAWireThatBreaks) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    BrokenWire(seed).run(60);
  }
}

}  // namespace
}  // namespace trireme::net
