// The rest of it is in tests/integration/mesh_test.cpp, with pipelines.
#include "trireme/dp/stage_sync.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "trireme/autograd/executor.h"
#include "trireme/dp/optimizer_hook.h"
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

// Ranks with different pasts: each pair has its own order of buckets.
TEST(StageSyncRanks, AnotherGroupAgreesOnTheOrder) {
  run_world(Backend::Local, 4, [](const comm::Group& world) {
    const int part = world.rank() / 2;
    const at::Tensor a = parameter(1);
    const at::Tensor b = parameter(1);
    StageSync sync({{0, {{"a", a}, {"b", b}}}}, world.split(part), {.bucket_bytes = 1});
    const auto step = [&](bool a_first) {
      a.mutable_grad() = b.mutable_grad() = at::Tensor();
      sync.last_backward(0);
      // What is used last comes first.
      const at::Tensor first = (a_first ? b * 10 : a).sum();
      const at::Tensor second = (a_first ? a : b * 10).sum();
      ((first + second) * world.rank()).backward();
      sync.reduce(0);
      sync.finish();
    };
    for (int k = 0; k < 3; ++k)
      step(part == 1);
    EXPECT_NE(sync.reducers().at(0)->planned_order().front(), part == 1 ? 1 : 0);
    sync.replace_group(world);
    EXPECT_EQ(sync.reducers().at(0)->planned_order().front(), 1);
    step(part == 1);
    EXPECT_EQ(a.grad()[0].item<float>(), 1.5);
    EXPECT_EQ(b.grad()[0].item<float>(), 15);
  });
}

TEST(StageSyncRanks, OptionsAndHooksAreCompared) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = parameter(1);
    const bool odd = group.rank() == 1;
    const auto differs = [&](const DataParallelOptions& options, const char* part) {
      const std::string message = testing::message_of<InvalidArgument>([&] {
        StageSync({{0, {{"a", a}}}}, group, odd ? options : DataParallelOptions{});
      });
      EXPECT_TRUE(testing::contains(message, part)) << message;
    };
    differs({.bucket_bytes = 7}, "bucket limit 7");
    differs({.reduction = Reduction::Sum}, "reduction 1");
    DataParallelOptions wide;
    wide.gradient_dtype = at::kDouble;
    differs(wide, "gradient_dtype Double");
    DataParallelOptions hooked;
    hooked.stage_hooks = [](int stage) {
      return CommHooks{make_hook(
          text("of stage ", stage),
          [](GradBucket& bucket, const CommHook::Next& next) { next(bucket); })};
    };
    differs(hooked, "hook of stage 0");
    // One rank alone is wrong: all hear of it.
    DataParallelOptions wrong;
    wrong.static_graph = odd;
    EXPECT_TRUE(testing::contains(
        testing::message_of<Error>([&] {
          StageSync({{0, {{"a", a}}}}, group, wrong);
        }),
        "static_graph"));
  });
}

TEST(StageSyncRanks, EveryStageHasItsHooks) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = parameter(1);
    const at::Tensor b = parameter(1);
    DataParallelOptions options;
    options.stage_hooks = [](int stage) {
      return CommHooks{
          make_hook("times", [stage](GradBucket& bucket, const auto& next) {
            next(bucket);
            bucket.buffer().mul_(stage + 1);
          })};
    };
    StageSync sync({{0, {{"a", a}}}, {3, {{"b", b}}}}, group, options);
    (a + b).sum().backward();
    sync.finish();
    EXPECT_EQ(a.grad()[0].item<float>(), 1);
    EXPECT_EQ(b.grad()[0].item<float>(), 4);
  });
}

TEST(StageSyncRanks, ParametersThatAreUnfrozenLaterAreRefused) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = parameter(1);
    const at::Tensor b = at::ones({2});
    StageSync sync({{0, {{"a", a}, {"b", b}}}}, group);
    b.set_requires_grad(true);
    (a + b).sum().backward();
    EXPECT_TRUE(testing::contains(
        testing::message_of<InvalidArgument>([&] { sync.finish(); }),
        "got b that need a gradient now"));
  });
}

// What an optimizer with masters asks for.
TEST(StageSyncRanks, SumsInAWiderDtypeCanStayAsTheyAre) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = at::ones({2}, at::kBFloat16).set_requires_grad(true);
    DataParallelOptions options;
    options.gradient_dtype = at::kFloat;
    options.unrounded = true;
    StageSync sync({{0, {{"a", a}}}}, group, options);
    for (int step = 0; step < 2; ++step) {
      (a * 256).sum().backward();
      a.sum().backward();
      sync.finish();
      EXPECT_TRUE(testing::same(a.grad(), at::full({2}, 257.0F)));
      a.mutable_grad() = at::Tensor();
    }
  });
}

// Other stages add to it, so no hook tells of its gradient; it was used all the same.
TEST(StageSyncRanks, WhatIsCompleteOnlyAtTheEndIsUsed) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = parameter(1);
    const at::Tensor b = parameter(1);
    DataParallelOptions options;
    options.stage_hooks = [&](int) {
      return CommHooks{make_optimizer_hook<torch::optim::SGD>(
          {a, b}, torch::optim::SGDOptions(1.0))};
    };
    StageSync sync({{0, {{"a", a}, {"b", b}}}}, group, options);
    sync.leave_to_finish({a});
    sync.last_backward(0);
    b.sum().backward();
    sync.reduce(0);
    a.mutable_grad() = at::full({2}, 2.0F * static_cast<float>(group.rank()));
    sync.finish();
    EXPECT_EQ(b[0].item<float>(), 0);
    EXPECT_EQ(a[0].item<float>(), 0);
    EXPECT_FALSE(a.grad().defined());
  });
}

TEST(StageSyncRanks, SumsOfPausedStepsAreWideAtTheEndToo) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = at::ones({2}, at::kBFloat16).set_requires_grad(true);
    DataParallelOptions options;
    options.gradient_dtype = at::kFloat;
    options.unrounded = true;
    StageSync sync({{0, {{"a", a}}}}, group, options);
    sync.leave_to_finish({a});
    // What a pipeline does with tied parameters at the end of a step.
    const auto step = [&](double gradient) {
      autograd::grad_field().accumulate(a, at::full({2}, gradient, at::kBFloat16), 0);
      sync.finish();
    };
    sync.pause();
    step(256);
    step(1);
    sync.resume();
    step(1);
    EXPECT_TRUE(testing::same(a.grad(), at::full({2}, 258.0F)));
  });
}

}  // namespace
}  // namespace trireme::dp
