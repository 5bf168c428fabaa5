// Channels: ends, deadlines, the batched exchange, and several threads at one end.
#include "trireme/comm/channel.h"

#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fake_engine.h"
#include "trireme/comm/init.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::message_of;

Group alone() {
  return Group(
      LocalWorld(1).join(0, Deadline::after(std::chrono::seconds(5))),
      {.timeout = milliseconds(30)});
}

Message word(int64_t value) {
  return {.header = {.word = value}};
}

// Rank 1 of 3, whose ports note what they are asked.
class ChannelEnds : public ::testing::Test {
 protected:
  std::shared_ptr<FakeEngine> engine = std::make_shared<FakeEngine>(1, 3);
  Group group{engine, {.timeout = milliseconds(4000)}};
};

TEST_F(ChannelEnds, OpenTheEndsThatAreHere) {
  const Channel out(group, {.from = 1, .to = 2, .tag = 7}, {.capacity_messages = 5});
  EXPECT_EQ(engine->opened, (std::vector<std::pair<int, int>>{{2, 7}}));
  EXPECT_EQ(engine->capacity, 5);
  const Channel in(group, {.from = 0, .to = 1, .tag = -2});
  EXPECT_EQ(engine->opened.back(), (std::pair<int, int>{0, -2}));
  const Channel both(group, {.from = 1, .to = 1});
  EXPECT_EQ(engine->opened.size(), 4U);
  EXPECT_EQ(out.edge().from, 1);
  EXPECT_EQ(out.edge().to, 2);
  EXPECT_EQ(out.edge().tag, 7);
}

TEST_F(ChannelEnds, RefuseAnEdgeOutsideTheGroup) {
  const auto refused = [&](const Edge& edge) {
    return message_of<InvalidArgument>([&] { Channel(group, edge); });
  };
  const std::string wanted =
      "[comm] expected an edge between ranks 0 to 2, got one from ";
  EXPECT_EQ(refused({1, 3}), wanted + "1 to 3; correct the edge");
  EXPECT_EQ(refused({-1, 1}), wanted + "-1 to 1; correct the edge");
  EXPECT_EQ(refused({3, 1}), wanted + "3 to 1; correct the edge");
  EXPECT_EQ(refused({1, -1}), wanted + "1 to -1; correct the edge");
  EXPECT_TRUE(engine->opened.empty());
}

TEST_F(ChannelEnds, RefuseAnEdgeOfOthers) {
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        Channel(group, {0, 2});
      }),
      "[comm] expected rank 0 or 2 to open this channel, got rank 1; open only the "
      "channels that end here");
}

TEST_F(ChannelEnds, RefuseTheWrongEnd) {
  const Channel out(group, {1, 2}), in(group, {0, 1});
  const std::string receive =
      "[comm] expected rank 2 to receive from this channel, got its sender; open one "
      "the other way";
  const std::string send =
      "[comm] expected rank 0 to send on this channel, got its receiver; open one the "
      "other way";
  EXPECT_EQ(message_of<InvalidArgument>([&] { out.receive(); }), receive);
  EXPECT_EQ(message_of<InvalidArgument>([&] { out.try_receive(); }), receive);
  EXPECT_EQ(message_of<InvalidArgument>([&] { in.send({}); }), send);
  EXPECT_EQ(message_of<InvalidArgument>([&] { in.try_send({}); }), send);
  EXPECT_EQ(message_of<InvalidArgument>([&] { exchange({{in, {}}}, {}); }), send);
  EXPECT_EQ(message_of<InvalidArgument>([&] { exchange({}, {out}); }), receive);
}

TEST_F(ChannelEnds, RefuseAClosedGroup) {
  Group copy = group;
  copy.close();
  EXPECT_THROW(Channel(group, {1, 2}), InvalidArgument);
}

TEST_F(ChannelEnds, HaveTheirOwnTimeoutOrTheGroups) {
  const Channel out(group, {1, 2}), in(group, {0, 1});
  out.send({});
  EXPECT_EQ(engine->sender->allowed, milliseconds(4000));
  out.send({}, milliseconds(80));
  EXPECT_EQ(engine->sender->allowed, milliseconds(80));
  in.receive();
  EXPECT_EQ(engine->receiver->allowed, milliseconds(4000));
  in.receive(milliseconds(90));
  EXPECT_EQ(engine->receiver->allowed, milliseconds(90));
}

TEST_F(ChannelEnds, AreSharedByTheirCopies) {
  const Channel out(group, {1, 2});
  const Channel copy = out;
  copy.send(word(1));
  out.send(word(2));
  EXPECT_EQ(engine->sender->sent, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(engine->opened.size(), 1U);
}

// ---- exchange
// --------------------------------------------------------------------------

TEST_F(ChannelEnds, ExchangeNothing) {
  EXPECT_TRUE(exchange({}, {}).empty());
}

TEST_F(ChannelEnds, ExchangeKeepsTheOrderOfAChannelThatWaits) {
  const Channel out(group, {1, 2}), in(group, {0, 1});
  engine->sender->busy = 5;
  engine->receiver->busy = 3;
  std::vector<Sending> sends;
  for (int64_t i = 0; i < 4; ++i)
    sends.push_back({out, word(i)});
  const auto got = exchange(sends, {in, in, in});
  EXPECT_EQ(engine->sender->sent, (std::vector<int64_t>{0, 1, 2, 3}));
  ASSERT_EQ(got.size(), 3U);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(got[i].header.word, static_cast<int64_t>(i) + 1);
}

TEST_F(ChannelEnds, ExchangeLetsOthersPassOneThatWaits) {
  const Channel slow(group, {1, 2, 0});
  FakeSendPort* const slow_port = engine->sender;
  const Channel fast(group, {1, 2, 1});
  FakeSendPort* const fast_port = engine->sender;
  slow_port->busy = 1 << 20;
  EXPECT_THROW(
      exchange(
          {{slow, word(1)}, {fast, word(2)}, {slow, word(3)}, {fast, word(4)}},
          {},
          milliseconds(10)),
      TimeoutError);
  EXPECT_TRUE(slow_port->sent.empty());
  EXPECT_EQ(fast_port->sent, (std::vector<int64_t>{2, 4}));
}

TEST_F(ChannelEnds, ExchangeSaysWhatIsLeft) {
  const Channel out(group, {1, 2}), in(group, {0, 1});
  engine->sender->busy = engine->receiver->busy = 1 << 20;
  EXPECT_EQ(
      message_of<TimeoutError>([&] {
        exchange({{out, {}}, {out, {}}}, {in}, milliseconds(10));
      }),
      "[comm] expected 2 sends and 1 receives within 10 ms, but 2 and 1 are left; "
      "first "
      "of all the message from rank 0");
  EXPECT_EQ(
      message_of<TimeoutError>([&] {
        exchange({{out, {}}}, {}, milliseconds(10));
      }),
      "[comm] expected 1 sends and 0 receives within 10 ms, but 1 and 0 are left");
}

TEST_F(ChannelEnds, ExchangeTakesTheTimeOfItsChannels) {
  const Channel out(group, {1, 2}), in(group, {0, 1});
  EXPECT_EQ(exchange({{out, word(1)}}, {in}, milliseconds(0)).size(), 1U);
}

// ---- a real channel of a rank to itself
// ------------------------------------------------

TEST(Channel, WaitsNoLongerThanItsGroup) {
  const Channel self(alone(), {0, 0});
  const std::string what = message_of<TimeoutError>([&] { self.receive(); });
  EXPECT_TRUE(contains(what, "message 1 from rank 0"));
  EXPECT_TRUE(contains(what, "30 ms"));
}

TEST(Channel, OutlivesItsGroupHandle) {
  Group group = alone();
  const Channel self(group, {0, 0});
  group.close();
  self.send(word(3));
  EXPECT_EQ(self.receive().header.word, 3);
}

TEST(Channel, RefusesACapacityThatCannotBe) {
  const Group group = alone();
  for (const int capacity : {0, -1, (1 << 20) + 1})
    EXPECT_EQ(
        message_of<InvalidArgument>([&] {
          Channel(group, {0, 0}, {.capacity_messages = capacity});
        }),
        text(
            "[comm] expected capacity_messages from 1 to 1048576, got ",
            capacity,
            "; choose one of these"));
  Channel(group, {0, 0}, {.capacity_messages = 1});
}

TEST(Channel, GoesOnAfterAMessageThatCannotTravel) {
  const Channel self(alone(), {0, 0});
  EXPECT_THROW(self.send({.tensors = {at::empty({2}, at::kMeta)}}), InvalidArgument);
  EXPECT_THROW(
      self.try_send({.header = {.bytes = std::string(5000, 'x')}}), InvalidArgument);
  self.send(word(8));
  EXPECT_EQ(self.receive().header.word, 8);
}

// ---- several threads at both ends
// ------------------------------------------------------

TEST(ChannelRanks, ServeSeveralThreads) {
  constexpr int kThreads = 3, kMessages = 200;
  run_local(2, [](const Group& world) {
    const Channel edge(world, {0, 1}, {.capacity_messages = 4});
    std::vector<std::thread> threads;
    std::vector<std::atomic<int>> seen(kThreads * kMessages);
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kMessages; ++i) {
          if (world.rank() == 0) {
            edge.send(word(t * kMessages + i));
          } else {
            ++seen[static_cast<size_t>(edge.receive().header.word)];
          }
        }
      });
    for (std::thread& thread : threads)
      thread.join();
    for (const auto& count : seen)
      EXPECT_EQ(count.load(), world.rank());  // nothing lost, nothing twice
  });
}

}  // namespace
}  // namespace trireme::comm
