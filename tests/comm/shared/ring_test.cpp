// Rings under pressure: small capacity, both kinds of ports, senders and receivers that
// come and go.
#include "trireme/comm/shared/ring.h"

#include <atomic>
#include <functional>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/shared/block_ports.h"
#include "trireme/comm/shared/reference_ports.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using testing::Backend;

class RingRanks : public ::testing::TestWithParam<Backend> {};

TEST_P(RingRanks, KeepOrderThroughASmallRing) {
  testing::run_world(GetParam(), 2, [](const Group& world) {
    const Channel edge(world, {0, 1}, {.capacity_messages = 2});
    for (int i = 0; i < 3000; ++i) {
      if (world.rank() == 0)
        edge.send({.tensors = {at::full({i % 50}, i)}, .header = {.word = i}});
      else
        ASSERT_EQ(edge.receive().header.word, i);
    }
  });
}

TEST_P(RingRanks, AReceiverCanComeLateAndAnotherCanGoOn) {
  testing::run_world(GetParam(), 2, [](const Group& world) {
    if (world.rank() == 0) {
      const Channel edge(world, {0, 1});
      for (int i = 0; i < 4; ++i)
        edge.send({.header = {.word = i}});
    }  // closed with everything still in it
    barrier(world);
    for (int first = 0; world.rank() == 1 && first < 4; first += 2) {
      const Channel edge(world, {0, 1});
      EXPECT_EQ(edge.receive().header.word, first);
      EXPECT_EQ(edge.receive().header.word, first + 1);
    }
    barrier(world);
    const Channel again(world, {0, 1});
    if (world.rank() == 0)
      again.send({.header = {.word = 77}});
    else
      EXPECT_EQ(again.receive().header.word, 77);
  });
}

TEST_P(RingRanks, ASecondReceiverIsRefused) {
  testing::run_world(GetParam(), 2, [](const Group& world) {
    const Channel edge(world, {0, 1});
    if (world.rank() == 0) {
      edge.send({});
      edge.send({});
    } else {
      edge.receive();
      const Channel other(world, {0, 1});
      EXPECT_THROW(other.receive(), InvalidArgument);
    }
    barrier(world);
  });
}

TEST_P(RingRanks, MessagesThatNobodyReceivesAreFreedWithTheWorld) {
  testing::run_world(GetParam(), 2, [](const Group& world) {
    const Channel edge(world, {world.rank(), 1 - world.rank()});
    for (int i = 0; i < 5; ++i)
      edge.send({.tensors = {at::ones({1000})}});
  });  // the leak check of the asan preset looks at this
}

// The receiver holds one message while it waits for the next: what makes room is that
// it took the last one, not that it gave it back.
TEST_P(RingRanks, AReceiverMayKeepAMessageWhileItWaitsForTheNext) {
  testing::run_world(GetParam(), 2, [](const Group& world) {
    const Channel edge(world, {0, 1}, {.capacity_messages = 1});
    constexpr auto kLimit = std::chrono::seconds(10);
    constexpr int64_t kLast = -1;
    const Deadline enough = Deadline::after(std::chrono::milliseconds(1500));
    for (int64_t i = 0; world.rank() == 0 && i < 20000 && !enough.expired(); ++i)
      edge.send({.tensors = {at::empty({1})}, .header = {.word = i}}, kLimit);
    if (world.rank() == 0)
      return edge.send({.header = {.word = kLast}}, kLimit);
    // Without a sleep in between: the sender must find the last one just taken.
    const auto receive = [&] {
      const Deadline deadline = Deadline::after(kLimit);
      for (int looks = 1; !deadline.expired(); ++looks) {
        if (auto next = edge.try_receive())
          return std::move(*next);
        if (looks % 1000 == 0)
          std::this_thread::yield();
      }
      throw TimeoutError("nothing came");
    };
    Message held = receive();
    for (int64_t i = 1; held.header.word != kLast; ++i) {
      Message next = receive();
      ASSERT_EQ(next.header.word, next.header.word == kLast ? kLast : i);
      held = std::move(next);
    }
  });
}

/// Runs `then` on a rank that has another thread waiting in a send: it can only end
/// when the other rank receives.
void behind_a_send(
    testing::Backend backend, const std::function<void(const Channel&)>& then) {
  testing::run_world(backend, 2, [&](const Group& world) {
    const Channel edge(world, {0, 1}, {.capacity_messages = 1});
    if (world.rank() == 1) {
      barrier(world);
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(edge.receive().header.word, i);
      return;
    }
    edge.send({.header = {.word = 0}});
    std::atomic<bool> ended{false};
    std::thread sender([&] {
      EXPECT_NO_THROW(edge.send({.header = {.word = 1}}, std::chrono::seconds(5)));
      ended = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    then(edge);
    EXPECT_FALSE(ended);
    barrier(world);
    sender.join();
  });
}

TEST_P(RingRanks, TryingDoesNotWaitForASendOfAnotherThread) {
  behind_a_send(GetParam(), [](const Channel& edge) {
    EXPECT_FALSE(edge.try_send({.header = {.word = 2}}));
  });
}

TEST_P(RingRanks, TryingDoesNotWaitForAReceiveOfAnotherThread) {
  testing::run_world(GetParam(), 2, [](const Group& world) {
    const Channel edge(world, {0, 1});
    if (world.rank() == 0) {
      barrier(world);
      edge.send({.header = {.word = 7}});
      return;
    }
    std::atomic<bool> ended{false};
    std::thread receiver([&] {
      EXPECT_NO_THROW(EXPECT_EQ(edge.receive(std::chrono::seconds(5)).header.word, 7));
      ended = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(edge.try_receive().has_value());
    EXPECT_FALSE(ended);  // it can only end when the other rank sends
    barrier(world);
    receiver.join();
  });
}

// The deadline of a call holds for its turn too.
TEST_P(RingRanks, ASendBehindAnotherThreadsSendHasItsOwnDeadline) {
  behind_a_send(GetParam(), [](const Channel& edge) {
    EXPECT_THROW(edge.send({}, std::chrono::milliseconds(20)), TimeoutError);
  });
}

TEST_P(RingRanks, MessagesKeepTheirStrides) {
  testing::run_world(GetParam(), 2, [](const Group& world) {
    const Channel edge(world, {0, 1});
    const at::Tensor image = at::arange(120, at::kFloat).reshape({2, 3, 4, 5});
    const std::vector<at::Tensor> tensors = {
        image.contiguous(at::MemoryFormat::ChannelsLast),
        image.permute({3, 1, 0, 2}),
        at::arange(4).reshape({1, 4}).t(),
        image};
    if (world.rank() == 0)
      return edge.send({.tensors = tensors});
    const Message got = edge.receive();
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(got.tensors[i].strides(), tensors[i].strides()) << i;
      EXPECT_TRUE(testing::same(got.tensors[i], tensors[i])) << i;
    }
    EXPECT_TRUE(got.tensors[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  });
}

TEST_P(RingRanks, RefuseACapacityThatMakesNoSense) {
  testing::run_world(GetParam(), 1, [](const Group& world) {
    for (const int capacity : {0, -3, 1 << 21})
      EXPECT_THROW(
          Channel(world, {0, 0}, {.capacity_messages = capacity}), InvalidArgument);
  });
}

/// Both ends of a channel of a rank with itself, which has sent nearly 2^32 messages.
template <class Sender, class Receiver>
void expect_order_across_the_wrap_around() {
  const auto memory = std::make_shared<HeapMemory>();
  const auto rings = flight_rings(1);
  const auto world = std::make_shared<World>(WorldSetup{
      .memory = memory,
      .control = make_world(*memory, 1),
      .recorder = std::make_shared<FlightRecorder>(rings.get(), 0, 1, "", rings)});
  const ChannelEnd place{
      .world = world,
      .directory = std::make_shared<ChannelDirectory>(*world),
      .key = {},
      .peer = 0,
      .first_message = 0xfffffff9};
  {
    Sender sender(place, {.capacity_messages = 3, .capacity_bytes = 1 << 20});
    Receiver receiver(place);
    int64_t sent = 0, received = 0;
    for (int round = 0; round < 12; ++round) {
      while (
          sender.try_send({.tensors = {at::full({5}, sent)}, .header = {.word = sent}}))
        ++sent;
      EXPECT_EQ(sent - received, 3);
      for (int i = 0; i <= round % 3; ++i, ++received) {
        const auto got = receiver.try_receive();
        ASSERT_TRUE(got.has_value());
        ASSERT_EQ(got->header.word, received);
        const at::Tensor& tensor = got->tensors.at(0);
        ASSERT_EQ(tensor[4].item<int64_t>(), received);
      }
    }
    while (receiver.try_receive())
      ++received;
    EXPECT_EQ(received, sent);
  }
  // All is given back, so the edge can be opened again.
  EXPECT_NO_THROW(Sender(place, {}));
}

TEST(RingCounters, KeepOrderAcrossTheWrapAround) {
  expect_order_across_the_wrap_around<BlockSender, BlockReceiver>();
  expect_order_across_the_wrap_around<ReferenceSender, ReferenceReceiver>();
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    RingRanks,
    ::testing::Values(Backend::Local, Backend::ShmThreads),
    [](const auto& kind) { return testing::to_string(kind.param); });

}  // namespace
}  // namespace trireme::comm
