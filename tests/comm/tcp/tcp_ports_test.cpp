#include "trireme/comm/tcp/tcp_ports.h"

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
