// The collectives whose sizes differ between ranks.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fake_engine.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;
using testing::same;
using Tensors = std::vector<at::Tensor>;

Group uneven_alone() {
  return Group(LocalWorld(1).join(0, Deadline::after(std::chrono::seconds(5))));
}

TEST(Uneven, AllGatherMakesNewTensors) {
  const Group group = uneven_alone();
  const at::Tensor input = at::arange(6).reshape({2, 3}).t();
  Tensors outputs = {at::ones({9}), at::ones({9})};
  const at::Tensor former = outputs[0];
  all_gather_uneven(group, outputs, input);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_TRUE(same(outputs[0], input));
  EXPECT_FALSE(outputs[0].is_alias_of(input));
  EXPECT_TRUE(same(former, at::ones({9})));
}

TEST(Uneven, AllGatherTakesEveryShape) {
  const Group group = uneven_alone();
  for (const at::Tensor& input :
       {at::ones({}, at::kBool),
        at::empty({0}),
        at::empty({4, 0, 2}, at::kHalf),
        at::ones(std::vector<int64_t>(24, 1))}) {
    Tensors outputs;
    all_gather_uneven(group, outputs, input);
    EXPECT_TRUE(same(outputs.at(0), input));
  }
}

TEST(Uneven, AllGatherRefusesTooManyDims) {
  const auto engine = std::make_shared<FakeEngine>(0, 2);
  Tensors outputs;
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        all_gather_uneven(
            Group(engine), outputs, at::ones(std::vector<int64_t>(25, 1)));
      }),
      "[comm] all_gather_uneven: expected at most 24 dims, got 25; flatten some of "
      "them");
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [&] { all_gather_uneven(Group(engine), outputs, at::Tensor()); }),
      "[comm] all_gather_uneven: expected a tensor, got an undefined one; give one");
  EXPECT_TRUE(engine->calls.empty());
}

TEST(Uneven, AllGatherLeavesItsOutputsWhenItFails) {
  const auto engine = std::make_shared<FakeEngine>(0, 2);
  engine->on_run = [](const Collective&) { throw TimeoutError("[comm] late"); };
  Tensors outputs = {at::ones({2})};
  EXPECT_THROW(all_gather_uneven(Group(engine), outputs, at::ones({1})), TimeoutError);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_TRUE(same(outputs[0], at::ones({2})));
}

TEST(Uneven, AllToAllWantsOneTensorARank) {
  const auto engine = std::make_shared<FakeEngine>(0, 3);
  const Group group(engine);
  const at::Tensor x = at::ones({2});
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        all_to_all(group, Tensors{x, x, x}, Tensors{x, x});
      }),
      "[comm] all_to_all: expected 3 inputs and outputs, one a rank, got 2 and 3; give "
      "one for each");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        all_to_all(group, Tensors{x, x, x, x}, Tensors{x, x, x});
      }),
      "[comm] all_to_all: expected 3 inputs and outputs, one a rank, got 3 and 4; give "
      "one for each");
  EXPECT_TRUE(engine->calls.empty());
}

TEST(Uneven, AllToAllWantsOneDtype) {
  const auto engine = std::make_shared<FakeEngine>(0, 2);
  const Group group(engine);
  const at::Tensor f = at::ones({2}), i = at::ones({2}, at::kInt);
  const std::string wanted =
      "[comm] all_to_all: expected input and output of one dtype, got float32 and "
      "int32; convert one of them";
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        all_to_all(group, Tensors{f, f}, Tensors{f, i});
      }),
      wanted);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        all_to_all(group, Tensors{f, i}, Tensors{f, f});
      }),
      wanted);
  EXPECT_TRUE(engine->calls.empty());
}

TEST(Uneven, AllToAllNamesTheCountsThatDoNotMatch) {
  const Group group = uneven_alone();
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [&] { all_to_all(group, Tensors{at::ones({3})}, Tensors{at::ones({2})}); }),
      "[comm] all_to_all: expected 3 elements from rank 0 at rank 0, got 2; make that "
      "rank's input and this rank's output agree");
  barrier(group);
}

TEST(Uneven, AllToAllWritesIntoStridedOutputs) {
  const Group group = uneven_alone();
  at::Tensor whole = at::zeros({3, 2});
  all_to_all(group, Tensors{whole.select(1, 1)}, Tensors{at::arange(3.0F)});
  EXPECT_TRUE(same(whole.select(1, 1), at::arange(3.0F)));
  EXPECT_TRUE(same(whole.select(1, 0), at::zeros({3})));
}

TEST(UnevenRanks, AllGatherFindsTwoDtypes) {
  run_local(2, [](const Group& world) {
    Tensors outputs;
    const std::string what = message_of<InvalidArgument>([&] {
      all_gather_uneven(
          world, outputs, at::ones({2}, world.rank() == 0 ? at::kFloat : at::kInt));
    });
    EXPECT_TRUE(contains(what, "all_gather_uneven float32[2]"));
    EXPECT_TRUE(contains(what, "all_gather_uneven int32[2]"));
    EXPECT_TRUE(outputs.empty());
    barrier(world);  // the group is still in step
  });
}

TEST(UnevenRanks, ShapesMayDifferInTheNumberOfDims) {
  run_local(3, [](const Group& world) {
    const auto of = [](int k) {
      return at::full(std::vector<int64_t>(static_cast<size_t>(k), 2), k);
    };
    Tensors outputs;
    const Work work =
        all_gather_uneven(world, outputs, of(world.rank()), {.async = true});
    work.wait();
    ASSERT_EQ(outputs.size(), 3U);
    for (int k = 0; k < 3; ++k)
      EXPECT_TRUE(same(outputs[static_cast<size_t>(k)], of(k)));
  });
}

// The first mistake, in the order of ranks, is everybody's error.
TEST(UnevenRanks, AllToAllGivesEverybodyTheSameError) {
  run_local(3, [](const Group& world) {
    Tensors inputs(3, at::ones({2})), outputs;
    for (int k = 0; k < 3; ++k)
      outputs.push_back(at::ones({world.rank() > 0 && k == 2 ? 4 + world.rank() : 2}));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { all_to_all(world, outputs, inputs); }),
        "expected 5 elements from rank 2 at rank 1, got 2"));
    barrier(world);
  });
}

}  // namespace
}  // namespace trireme::comm
