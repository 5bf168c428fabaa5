#include "trireme/comm/tcp/tcp_ports.h"

#include <algorithm>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tcp_ranks.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// More than any window of the transport lies in one channel; another goes on.
TEST(TcpPortsRanks, AFullChannelHoldsNoOtherUp) {
  run_tcp({.hosts = {2}}, [](const Group& world) {
    const Channel full(world, {.from = 0, .to = 1, .tag = 1});
    const Channel quick(world, {.from = 0, .to = 1, .tag = 2});
    if (world.rank() == 0) {
      for (int i = 0; i < 12; ++i)
        full.send({.tensors = {at::full({2'000'000}, i)}});
      quick.send({.header = {.word = 7}});
    } else {
      EXPECT_EQ(quick.receive().header.word, 7);
      for (int i = 0; i < 12; ++i)
        EXPECT_EQ(full.receive().tensors[0][3].item<float>(), static_cast<float>(i));
    }
    barrier(world);
  });
}

TEST(TcpPortsRanks, AnyOfSeveralCanBeWaitedFor) {
  run_tcp({.hosts = {3}}, [](const Group& world) {
    if (world.rank() != 0) {
      const Channel edge(world, {.from = world.rank(), .to = 0});
      std::this_thread::sleep_for(std::chrono::milliseconds(30 * world.rank()));
      edge.send({.tensors = {at::ones({100'000})}, .header = {.word = world.rank()}});
      return;  // closes its end, and then its group
    }
    std::vector<Channel> inboxes;
    for (int from = 1; from <= 2; ++from)
      inboxes.emplace_back(world, Edge{.from = from, .to = 0});
    std::vector<int64_t> words;
    while (!inboxes.empty()) {
      const size_t i = wait_any(inboxes);
      if (inboxes[i].closed())
        inboxes.erase(inboxes.begin() + static_cast<std::ptrdiff_t>(i));
      else
        words.push_back(inboxes[i].receive().header.word);
    }
    EXPECT_EQ(words, (std::vector<int64_t>{1, 2}));
  });
}

// A rank has one bell, wherever its peers are, or who waits for both would have to ask
// them again and again.
TEST(TcpPortsRanks, ChannelsOfBothWorldsOfARankRingOneBell) {
  run_tcp({.hosts = {2, 1}}, [](const Group& world) {
    if (world.rank() == 0) {
      Engine& engine = world.engine();
      const auto near = engine.open_receive(1, 7), far = engine.open_receive(2, 7);
      const auto near_out = engine.open_send(1, 7, {}),
                 far_out = engine.open_send(2, 7, {});
      EXPECT_NE(near->doorbell(), nullptr);
      for (Doorbell* bell :
           {far->doorbell(), near_out->doorbell(), far_out->doorbell()})
        EXPECT_EQ(bell, near->doorbell());
    }
    barrier(world);
  });
}

TEST(TcpPortsRanks, AnyOfBothWorldsWakesAtOnce) {
  using Clock = std::chrono::steady_clock;
  constexpr int kMessages = 41;
  run_tcp({.hosts = {2, 1}}, [](const Group& world) {
    if (world.rank() != 0) {
      const Channel out(world, {.from = world.rank(), .to = 0});
      for (int i = 0; i < kMessages; ++i) {
        barrier(world);
        // By turns, and when the other one has gone to sleep.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (world.rank() == 1 + i % 2)
          out.send({.header = {.word = Clock::now().time_since_epoch().count()}});
      }
      barrier(world);
      return;
    }
    const std::vector<Channel> in = {
        Channel(world, {.from = 1, .to = 0}), Channel(world, {.from = 2, .to = 0})};
    std::vector<Clock::duration> far;
    for (int i = 0; i < kMessages; ++i) {
      barrier(world);
      const size_t from = wait_any(in);
      const auto now = Clock::now().time_since_epoch();
      EXPECT_EQ(from, static_cast<size_t>(i % 2));
      const Clock::duration took =
          now - Clock::duration(in[from].receive().header.word);
      if (from == 1)
        far.push_back(took);
    }
    barrier(world);
    std::nth_element(far.begin(), far.begin() + far.size() / 2, far.end());
    // Who asks in pauses finds it half a millisecond late.
    EXPECT_LT(far[far.size() / 2], std::chrono::microseconds(400));
  });
}

// What the sender of its former life has closed says nothing of the next one.
TEST(TcpPortsRanks, AChannelThatIsOpenedAgainIsNotClosed) {
  run_tcp({.hosts = {2}}, [](const Group& world) {
    for (int life = 1; life < 4; ++life) {
      if (world.rank() == 1) {
        const Channel in(world, {.from = 0, .to = 1});
        EXPECT_FALSE(in.closed()) << "life " << life;
        barrier(world);
        wait_any({in});
        EXPECT_EQ(in.receive().header.word, life);
        wait_any({in});
        EXPECT_TRUE(in.closed());
      } else {
        barrier(world);
        const Channel out(world, {.from = 0, .to = 1});
        out.send({.header = {.word = life}});
      }
    }
  });
}

}  // namespace
}  // namespace trireme::comm
