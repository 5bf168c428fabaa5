// Rings under pressure: small capacity, both kinds of ports, senders and receivers that
// come and go.
#include "trireme/comm/shared/ring.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
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

TEST_P(RingRanks, RefuseACapacityThatMakesNoSense) {
  testing::run_world(GetParam(), 1, [](const Group& world) {
    for (const int capacity : {0, -3, 1 << 21})
      EXPECT_THROW(
          Channel(world, {0, 0}, {.capacity_messages = capacity}), InvalidArgument);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    RingRanks,
    ::testing::Values(Backend::Local, Backend::ShmThreads),
    [](const auto& kind) { return testing::to_string(kind.param); });

}  // namespace
}  // namespace trireme::comm
