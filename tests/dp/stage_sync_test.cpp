// The rest of it is in tests/integration/mesh_test.cpp, with pipelines.
#include "trireme/dp/stage_sync.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/autograd/executor.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;

at::Tensor parameter(float value) {
  return at::full({2}, value).set_requires_grad(true);
}

TEST(StageSyncRanks, EveryStageByItself) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto rank = static_cast<float>(group.rank());
    const at::Tensor a = parameter(1 + rank);
    const at::Tensor b = parameter(2 + rank);
    StageSync sync({{0, {{"a", a}}}, {2, {{"b", b}}}}, group);
    EXPECT_EQ(a[0].item<float>(), 1) << "the values of rank 0";
    EXPECT_EQ(sync.reducers().size(), 2u);

    sync.last_backward(2);
    (b * (rank + 1)).sum().backward();
    sync.reduce(2);
    (a * (rank + 3)).sum().backward();
    EXPECT_EQ(a.grad()[0].item<float>(), rank + 3) << "not reduced yet";
    sync.last_backward(0);
    sync.reduce(0);
    sync.finish();
    EXPECT_EQ(b.grad()[0].item<float>(), 1.5);
    EXPECT_EQ(a.grad()[0].item<float>(), 3.5);
  });
}

TEST(StageSyncRanks, PausedStepsAddUp) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = parameter(1);
    StageSync sync({{0, {{"a", a}}}}, group);
    const auto step = [&] {
      sync.last_backward(0);
      (a * (group.rank() + 1)).sum().backward();
      sync.reduce(0);
      sync.finish();
    };
    sync.pause();
    step();
    sync.resume();
    step();
    EXPECT_EQ(a.grad()[0].item<float>(), 3);
  });
}

TEST(StageSyncRanks, AParameterOfTwoStagesIsReducedOnce) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = parameter(1);
    StageSync sync({{0, {{"a", a}}}, {1, {{"again", a}}}}, group);
    for (const int stage : {1, 0}) {
      sync.last_backward(stage);
      (a * (group.rank() + 1)).sum().backward();
      sync.reduce(stage);
    }
    sync.finish();
    EXPECT_EQ(a.grad()[0].item<float>(), 3);
  });
}

TEST(StageSyncRanks, WeightedMeanAndAnotherGroup) {
  run_world(Backend::Local, 4, [](const comm::Group& world) {
    const at::Tensor a = parameter(1);
    StageSync sync(
        {{0, {{"a", a}}}},
        world.split(world.rank() / 2),
        {.reduction = Reduction::WeightedMean});
    const auto step = [&](int64_t weight) {
      a.mutable_grad() = at::Tensor();
      sync.set_weight(weight);
      (a * world.rank()).sum().backward();
      sync.finish();  // does what nobody has asked for by name
      return a.grad()[0].item<float>();
    };
    EXPECT_EQ(step(world.rank() % 2 == 0 ? 3 : 1), world.rank() < 2 ? 0.25F : 2.25F);
    sync.replace_group(world);
    EXPECT_EQ(step(1), 1.5);
  });
}

TEST(StageSyncRanks, NoGradientAnywhereIsNone) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = parameter(1);
    const at::Tensor b = parameter(1);
    StageSync sync({{0, {{"a", a}, {"b", b}}}}, group);
    sync.last_backward(0);
    a.sum().backward();
    sync.reduce(0);
    sync.finish();
    EXPECT_TRUE(a.grad().defined());
    EXPECT_FALSE(b.grad().defined());
  });
}

}  // namespace
}  // namespace trireme::dp
