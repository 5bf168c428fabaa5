#include "trireme/comm/shared/block_ports.h"

#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using testing::Backend;

TEST(BlockPortsRanks, AReceivedTensorIsAViewOfTheSegment) {
  testing::run_world(Backend::ShmThreads, 2, [](const Group& world) {
    const Channel edge(world, {0, 1});
    at::Tensor kept = world.allocate({1}, at::kInt);
    if (world.rank() == 0) {
      const at::Tensor sent = at::arange(1000);
      edge.send({.tensors = {sent}});
      sent.fill_(-1);  // a copy was sent: the receiver must not see this
      barrier(world);
    } else {
      barrier(world);
      const at::Tensor got = edge.receive().tensors[0];
      EXPECT_TRUE(testing::same(got, at::arange(1000)));
      // In the same mapping as what allocate() gives: gigabytes away from any heap.
      const auto distance = reinterpret_cast<intptr_t>(got.data_ptr()) -
                            reinterpret_cast<intptr_t>(kept.data_ptr());
      EXPECT_LT(std::abs(distance), intptr_t{1} << 40);
    }
  });
}

TEST(BlockPortsRanks, TheSamePlaceServesTheNextMessageOnceItIsGivenBack) {
  testing::run_world(Backend::ShmThreads, 2, [](const Group& world) {
    const Channel edge(world, {0, 1});
    std::set<void*> places;
    for (int i = 0; i < 30; ++i) {
      if (world.rank() == 0)
        edge.send({.tensors = {at::full({5000}, i)}});
      else
        places.insert(edge.receive().tensors[0].data_ptr());
      barrier(world);
    }
    if (world.rank() == 1) {
      EXPECT_LE(places.size(), 2U);
    }
  });
}

TEST(BlockPortsRanks, TensorsMayDieInAnyOrderAndOnAnyThread) {
  testing::run_world(Backend::ShmThreads, 2, [](const Group& world) {
    const Channel edge(world, {0, 1}, {.capacity_bytes = 400000});
    for (int round = 0; round < 20; ++round) {
      if (world.rank() == 0) {
        for (int i = 0; i < 4; ++i)
          edge.send({.tensors = {at::full({10000}, i), at::full({10}, i)}});
        continue;
      }
      std::vector<Message> got(4);
      for (Message& message : got)
        message = edge.receive();
      std::thread other([last = std::move(got[3])]() mutable { last = {}; });
      got[1] = {};
      EXPECT_EQ(got[0].tensors[0][9999].item<int>(), 0);
      EXPECT_EQ(got[2].tensors[1][9].item<int>(), 2);
      other.join();
    }
  });
}

TEST(BlockPortsRanks, AHeldTensorKeepsItsBytesWhileOthersPass) {
  testing::run_world(Backend::ShmThreads, 2, [](const Group& world) {
    const Channel edge(world, {0, 1});
    at::Tensor held;
    for (int i = 0; i < 50; ++i) {
      if (world.rank() == 0) {
        edge.send({.tensors = {at::full({4000}, i)}});
      } else {
        const at::Tensor got = edge.receive().tensors[0];
        EXPECT_TRUE(testing::same(got, at::full({4000}, i)));
        if (i == 3)
          held = got;
      }
    }
    if (world.rank() == 1) {
      EXPECT_TRUE(testing::same(held, at::full({4000}, 3)));
    }
  });
}

// What cannot be read is gone, like any message that was received: the next one comes,
// and the sender's accounts are right.
TEST(BlockPortsRanks, AMessageThatCannotBeReadIsLeftOut) {
  run_staged(2, [](SharedEngine& engine) {
    const auto meet = [&] { engine.run({.kind = CollectiveKind::Barrier}, in_time()); };
    std::unique_ptr<SendPort> sender;
    if (engine.rank() == 0) {
      sender = engine.open_send(1, 0, {.capacity_messages = 2});
      sender->send({.header = {.word = 1}}, in_time());
      sender->send({.header = {.word = 2}}, in_time());
    }
    meet();
    if (engine.rank() == 1) {
      ChannelDirectory directory(engine.world());
      const auto* entry = directory.find(0, {.from = 0, .to = 1});
      ASSERT_NE(entry, nullptr);
      SharedMemory& memory = engine.world().memory();
      auto& ring = *memory.as<RingControl>(entry->ring.load());
      std::byte* first = memory.at(ring.slot(0).payload) + sizeof(BlockHeader);
      *first ^= std::byte{1};
      const auto receiver = engine.open_receive(0, 0);
      EXPECT_THROW(receiver->receive(in_time()), InvalidArgument);
      EXPECT_EQ(ring.taken.value.load(), 1U);
      EXPECT_EQ(ring.freed.value.load(), 1U);
      EXPECT_EQ(receiver->receive(in_time()).header.word, 2);
      EXPECT_TRUE(ring.all_given_back());
    }
    meet();
    if (sender) {
      EXPECT_TRUE(sender->try_send({}));
      EXPECT_TRUE(sender->try_send({}));
      EXPECT_FALSE(sender->try_send({}));
    }
    meet();
  });
}

}  // namespace
}  // namespace trireme::comm
