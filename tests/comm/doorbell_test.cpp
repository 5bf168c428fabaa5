// Waiting for the first of several channels.
#include "trireme/comm/doorbell.h"

#include <thread>

#include <gtest/gtest.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;

/// Notes what it is asked.
struct FakeBell : Doorbell {
  void listen() override { ++listeners; }
  void stop_listening() noexcept override { --listeners; }
  void ring() override { ++count; }
  uint32_t rings() const override { return count; }
  void await_ring(uint32_t seen, milliseconds) override {
    last_seen = seen;
    ++waits;
  }
  int listeners = 0, waits = 0;
  uint32_t count = 0, last_seen = 99;
};

TEST(EventWait, ListensBeforeItLooksAgain) {
  FakeBell bell;
  {
    EventWait event;
    event.add(&bell);
    event.add(&bell);  // of another channel
    EXPECT_EQ(bell.listeners, 0);
    event.wait();
    EXPECT_EQ(bell.listeners, 1);
    EXPECT_EQ(bell.waits, 0);
    event.wait();
    EXPECT_EQ(bell.waits, 1);
    bell.count = 7;
    event.wait();
    EXPECT_EQ(bell.last_seen, 0U);  // it has rung since
    event.wait();
    EXPECT_EQ(bell.last_seen, 7U);
  }
  EXPECT_EQ(bell.listeners, 0);
}

TEST(EventWait, AsksWhereNotEverythingHasTheSameBell) {
  FakeBell bell, other;
  EventWait mixed, two;
  mixed.add(&bell);
  mixed.add(nullptr);
  two.add(&bell);
  two.add(&other);
  for (int i = 0; i < 5; ++i) {
    mixed.wait();
    two.wait();
    two.found();
  }
  EXPECT_EQ(bell.waits + other.waits, 0);
}

const auto kBackends = {testing::Backend::Local, testing::Backend::ShmThreads};

TEST(DoorbellRanks, AMessageWakesAtOnce) {
  for (const auto backend : kBackends)
    testing::run_world(backend, 3, [](const Group& world) {
      if (world.rank() == 0) {
        const std::vector<Channel> in = {
            Channel(world, {1, 0}), Channel(world, {2, 0})};
        for (const size_t from : {1, 0, 1}) {
          EXPECT_EQ(wait_any(in), from);
          in[from].receive();
          barrier(world);
        }
        return;
      }
      const Channel out(world, {world.rank(), 0});
      for (const int turn : {2, 1, 2}) {
        std::this_thread::sleep_for(milliseconds(5));
        if (world.rank() == turn)
          out.send({});
        barrier(world);
      }
    });
}

TEST(DoorbellRanks, AClosedSenderIsAnEvent) {
  for (const auto backend : kBackends)
    testing::run_world(backend, 2, [](const Group& world) {
      if (world.rank() == 1) {
        const Channel stays(world, {1, 0, 1});
        Channel out(world, {1, 0});
        out.send({.header = {.word = 4}});
        barrier(world);
        std::this_thread::sleep_for(milliseconds(10));
        out = stays;  // closes
        barrier(world);
        return;
      }
      const Channel other(world, {1, 0, 1}), in(world, {1, 0});
      EXPECT_FALSE(in.closed());
      EXPECT_EQ(wait_any({other, in}), 1U);
      EXPECT_FALSE(in.closed());
      EXPECT_EQ(in.receive().header.word, 4);
      EXPECT_FALSE(in.closed());
      barrier(world);
      EXPECT_EQ(wait_any({other, in}), 1U);
      EXPECT_TRUE(in.closed());
      EXPECT_FALSE(in.try_receive());
      EXPECT_FALSE(other.closed());
      barrier(world);
    });
}

TEST(DoorbellRanks, AFailureEndsTheWait) {
  for (const auto backend : kBackends)
    testing::run_world(backend, 2, [](const Group& world) {
      if (world.rank() == 1) {
        std::this_thread::sleep_for(milliseconds(20));
        world.abort("the bell is cracked");
        return;
      }
      const Channel in(world, {1, 0});
      const auto start = std::chrono::steady_clock::now();
      EXPECT_THROW(wait_any({in}), PeerError);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    });
}

// A full channel: exchange() is woken when there is room.
TEST(DoorbellRanks, RoomIsAnEventToo) {
  for (const auto backend : kBackends)
    testing::run_world(backend, 2, [](const Group& world) {
      const Channel edge(world, {0, 1}, {.capacity_messages = 1});
      constexpr int kMessages = 200;
      for (int i = 0; i < kMessages; ++i) {
        if (world.rank() == 0)
          exchange({{edge, {.header = {.word = i}}}}, {});
        else
          EXPECT_EQ(exchange({}, {edge})[0].header.word, i);
      }
      barrier(world);
    });
}

TEST(Doorbell, WaitsForSomething) {
  EXPECT_THROW(wait_any({}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::comm
