// Chains of hooks around the reduction of a whole model.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/comm_hook.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;
using testing::same;

at::Tensor hook_input(int rank) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(rank + 1));
}

/// Hooks, and a bucket for each parameter.
DataParallelOptions with_hooks(const CommHooks& hooks) {
  DataParallelOptions options;
  options.bucket_bytes = 1;
  options.hooks = hooks;
  return options;
}

/// The gradients of a backward with these hooks, beside those without.
void compare(
    const comm::Group& group,
    const CommHooks& hooks,
    const std::function<void(const at::Tensor&, const at::Tensor&)>& check) {
  const auto plain = std::make_shared<Blocks>(2);
  const auto hooked = std::make_shared<Blocks>(2);
  DataParallel without(plain, group, {.bucket_bytes = 1});
  DataParallel with(hooked, group, with_hooks(hooks));
  for (int step = 0; step < 3; ++step) {
    drop_gradients(*plain);
    drop_gradients(*hooked);
    without(hook_input(group.rank())).sum().backward();
    with(hook_input(group.rank())).sum().backward();
    for (size_t i = 0; i < 4; ++i)
      check(hooked->parameters()[i].grad(), plain->parameters()[i].grad());
  }
}

TEST(DataParallelHooksRanks, ChainsRunFromTheFirstToTheLast) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      const auto twice = make_hook("twice", [](GradBucket& bucket, const auto& next) {
        bucket.buffer().mul_(2);
        next(bucket);
        bucket.buffer().add_(1);
      });
      const auto other = make_hook("other", [](GradBucket& bucket, const auto& next) {
        bucket.buffer() = bucket.buffer().to(at::kFloat) * 3;  // another tensor
        next(bucket);
      });
      compare(
          group, {twice, other}, [](const at::Tensor& got, const at::Tensor& plain) {
            EXPECT_TRUE(same(got, plain * 6 + 1));
          });
    });
}

TEST(DataParallelHooksRanks, AHookMayReduceByItself) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto own = make_hook(
        "own", [](GradBucket& bucket, const auto&) { bucket.reduce(bucket.buffer()); });
    compare(group, {own}, [](const at::Tensor& got, const at::Tensor& plain) {
      EXPECT_TRUE(same(got, plain));
    });
    const auto none = make_hook(
        "none", [](GradBucket& bucket, const auto&) { bucket.buffer().fill_(4); });
    compare(group, {none}, [](const at::Tensor& got, const at::Tensor&) {
      EXPECT_TRUE(same(got, at::full_like(got, 4)));
    });
  });
}

TEST(DataParallelHooksRanks, WhatAHookSees) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    std::vector<size_t> indices;
    int last = 0;
    int64_t rounds = 0;
    const auto look = make_hook("look", [&](GradBucket& bucket, const auto& next) {
      indices.push_back(bucket.index());
      last += bucket.is_last();
      rounds = bucket.round();
      EXPECT_EQ(bucket.group().size(), 2);
      EXPECT_EQ(bucket.entries().size(), 1);
      for (const GradBucket::Entry& entry : bucket.entries()) {
        EXPECT_EQ(entry.info->tensor.sizes(), entry.gradient.sizes());
        EXPECT_TRUE(entry.gradient.is_alias_of(bucket.buffer()));
      }
      next(bucket);
    });
    compare(group, {look}, [](const at::Tensor& got, const at::Tensor& plain) {
      EXPECT_TRUE(same(got, plain));
    });
    EXPECT_EQ(indices, (std::vector<size_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
    EXPECT_EQ(last, 3);
    EXPECT_EQ(rounds, 2);
  });
}

TEST(DataParallelHooksRanks, UnusedParametersAndWeightsWithHooks) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto pass =
        make_hook("pass", [](GradBucket& b, const auto& next) { next(b); });
    const auto net = std::make_shared<Blocks>(3);
    const auto plain = std::make_shared<Blocks>(3);
    const DataParallelOptions options{
        .bucket_bytes = 1, .reduction = Reduction::WeightedMean, .find_unused = true};
    DataParallelOptions hooked = options;
    hooked.hooks = {pass};
    DataParallel with(net, group, hooked);
    DataParallel without(plain, group, options);
    for (auto* model : {&with, &without}) {
      model->set_weight(group.rank() * 2 + 2);
      (*model)(hook_input(group.rank()), std::vector<int>{group.rank()})
          .sum()
          .backward();
    }
    expect_same_gradients(*net, *plain);
    EXPECT_FALSE(net->weight(2).grad().defined());
  });
}

TEST(DataParallelHooksRanks, ABufferOfAnotherSizeIsRefused) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto cut = make_hook("cut", [](GradBucket& bucket, const auto& next) {
      next(bucket);
      bucket.buffer() = bucket.buffer().narrow(0, 0, 1);
    });
    DataParallel model(std::make_shared<Blocks>(1), group, with_hooks({cut}));
    EXPECT_TRUE(contains(
        message_of<Error>([&] { model(hook_input(0)).sum().backward(); }),
        "expected the hook cut to leave a buffer of"));
  });
}

TEST(DataParallelHooks, AFunctionIsNeeded) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { make_hook("nothing", {}); }), "hook nothing"));
  EXPECT_EQ(make_hook("name", [](GradBucket&, const auto&) {})->name(), "name");
}

}  // namespace
}  // namespace trireme::dp
