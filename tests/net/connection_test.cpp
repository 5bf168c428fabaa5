#include "trireme/net/connection.h"

#include <algorithm>
#include <future>
#include <sys/socket.h>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/net/inbox.h"

namespace trireme::net {
namespace {

struct Pair {
  explicit Pair(int buffer_bytes = 0) {
    int fds[2];
    EXPECT_EQ(
        ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    if (buffer_bytes > 0)
      for (const int fd : fds)
        ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
    left.emplace(plain_stream(FileDescriptor(fds[0])), Limits{}, true);
    right.emplace(plain_stream(FileDescriptor(fds[1])), Limits{}, true);
  }
  std::optional<Connection> left, right;
};

/// A queue as a source, and an inbox as a sink.
class QueueSource : public FrameSource {
 public:
  QueueSource() { queue.open({}, true); }
  bool next(OutFrame& out) override {
    if (!queue.next(out))
      return false;
    out.head = encode(out.frame);
    return true;
  }
  void written(OutFrame&& frame) override { past.push_back(std::move(frame)); }
  SendQueue queue;
  std::vector<OutFrame> past;
};

class InboxSink : public FrameSink {
 public:
  std::span<std::byte> begin(const Frame& frame, std::string header) override {
    return inbox.begin(frame, std::move(header), [](const Envelope&, std::size_t) {
      return std::span<std::byte>();
    });
  }
  void end(const Frame&) override {
    if (auto message = inbox.end())
      messages.push_back(std::move(*message));
  }
  BufferPool pool;
  Inbox inbox{Limits{}, pool};
  std::vector<InMessage> messages;
};

TEST(Connection, MovesMessagesThroughASmallSocket) {
  Pair pair(4096);
  QueueSource source;
  InboxSink sink;
  std::mutex lock;
  std::vector<std::byte> scratch(8192);
  std::vector<std::vector<std::byte>> bodies;
  for (std::size_t i = 0; i < 20; ++i)
    bodies.emplace_back(i * i * 3000, static_cast<std::byte>(i));
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    OutMessage message{.envelope = {.request = i, .header = std::string(i, 'h')}};
    // Many small pieces, more than one call can gather.
    for (std::size_t at = 0; at < bodies[i].size(); at += 1000)
      message.body.push_back(std::span(bodies[i]).subspan(
          at, std::min<std::size_t>(1000, bodies[i].size() - at)));
    source.queue.push(std::move(message));
  }
  for (int turn = 0; turn < 100'000 && sink.messages.size() < bodies.size(); ++turn) {
    EXPECT_NE(pair.left->write(source, 5000), Connection::Turn::Closed);
    EXPECT_NE(pair.right->read(sink, scratch, 5000, lock), Connection::Turn::Closed);
  }
  ASSERT_EQ(sink.messages.size(), bodies.size());
  for (const InMessage& message : sink.messages) {
    const std::size_t i = message.envelope.request;
    EXPECT_EQ(message.envelope.header.size(), i);
    EXPECT_TRUE(std::equal(
        message.body.begin(), message.body.end(), bodies[i].begin(), bodies[i].end()))
        << i;
  }
  EXPECT_TRUE(pair.left->written());
  EXPECT_TRUE(pair.right->between_frames());
}

// Its memory is the program's again once a message has been acknowledged.
TEST(Connection, KnowsWhatNobodyCanHaveReadYet) {
  Pair pair(4096);
  QueueSource source;
  const std::vector<std::byte> body(100'000);
  for (int i = 0; i < 2; ++i)
    source.queue.push({.body = {std::span(body)}});
  std::mutex lock;
  EXPECT_EQ(pair.left->write(source, 1 << 20), Connection::Turn::Idle);
  EXPECT_FALSE(pair.left->is_writing(0));
  EXPECT_TRUE(pair.left->is_writing(1));
  EXPECT_TRUE(pair.left->is_writing(2));
  InboxSink sink;
  std::vector<std::byte> scratch(1 << 16);
  for (int i = 0; i < 1000 && sink.messages.size() < 2; ++i) {
    pair.left->write(source, 1 << 20);
    pair.right->read(sink, scratch, 1 << 20, lock);
    EXPECT_FALSE(pair.left->is_writing(sink.messages.size()));
  }
  EXPECT_EQ(sink.messages.size(), 2u);
  EXPECT_FALSE(pair.left->is_writing(2));
  // What it wrote is its owner's, to be let go of when no lock is held.
  ASSERT_GE(source.past.size(), 2u);
  EXPECT_EQ(source.past.back().frame.sequence, 2u);
  EXPECT_NE(source.past.back().message, nullptr);
}

TEST(Connection, SaysWhenTheOtherSideIsGone) {
  Pair pair;
  InboxSink sink;
  std::mutex lock;
  std::vector<std::byte> scratch(8192);
  EXPECT_EQ(pair.right->read(sink, scratch, 1000, lock), Connection::Turn::Idle);
  pair.left.reset();
  EXPECT_EQ(pair.right->read(sink, scratch, 1000, lock), Connection::Turn::Closed);
  QueueSource source;
  source.queue.push({.envelope = {.header = "into nothing"}});
  EXPECT_EQ(pair.right->write(source, 1000), Connection::Turn::Closed);
}

// Whoever writes a large message from a thread of its own has the lock all the while.
TEST(Connection, ReadsATwoWayStreamWhileSomebodyWrites) {
  Pair pair;
  QueueSource source;
  InboxSink sink;
  std::mutex lock;
  std::vector<std::byte> scratch(8192);
  source.queue.push({.envelope = {.header = "hello"}});
  EXPECT_EQ(pair.left->write(source, 1000), Connection::Turn::Idle);
  std::unique_lock writing(lock);
  auto reading = std::async(
      std::launch::async, [&] { return pair.right->read(sink, scratch, 1000, lock); });
  EXPECT_EQ(reading.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  writing.unlock();
  EXPECT_EQ(reading.get(), Connection::Turn::Idle);
  EXPECT_EQ(sink.messages.size(), 1u);
}

}  // namespace
}  // namespace trireme::net
