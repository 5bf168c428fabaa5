#include "trireme/dp/local_sgd.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "hook_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;

/// The rank's number, in two dtypes.
std::vector<at::Tensor> rank_values(const comm::Group& group) {
  return {
      at::full({3}, group.rank(), at::kFloat),
      at::full({2, 2}, group.rank(), at::kDouble)};
}

bool all_are(const std::vector<at::Tensor>& tensors, double value) {
  return (tensors[0] == value).all().item<bool>() &&
         (tensors[1] == value).all().item<bool>();
}

TEST(PostLocalSgdRanks, GradientsBecomeLocal) {
  run_both(2, [](const comm::Group& group) {
    HookCase test(group, tiny_buckets({make_post_local_sgd_hook({.start_round = 2})}));
    for (int round = 0; round < 4; ++round) {
      test.backward();
      EXPECT_LT(
          distance(
              test.gradients(),
              round < 2 ? test.mean_gradients() : test.own_gradients()),
          1e-6)
          << round;
      test.zero_grad();
    }
  });
}

TEST(PostLocalSgdRanks, SubgroupsGoOnSharing) {
  run_both(4, [](const comm::Group& group) {
    const comm::Group pair = group.split(group.rank() / 2, group.rank());
    HookCase test(
        group,
        tiny_buckets({make_post_local_sgd_hook({.start_round = 1, .subgroup = pair})}));
    test.backward();
    EXPECT_TRUE(same_everywhere(group, test.gradients()));
    test.zero_grad();
    for (int round = 0; round < 2; ++round) {
      test.backward();
      EXPECT_TRUE(same_everywhere(pair, test.gradients()));
      EXPECT_FALSE(same_everywhere(group, test.gradients()));
      test.zero_grad();
    }
  });
}

TEST(PostLocalSgdRanks, NeedsMeans) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>(
          [] { make_post_local_sgd_hook({.start_round = -1}); }),
      "start_round of at least 0, got -1"));
  run_both(2, [](const comm::Group& group) {
    DataParallelOptions options = one_bucket({make_post_local_sgd_hook({})});
    options.reduction = Reduction::Sum;
    HookCase test(group, options);
    EXPECT_TRUE(contains(
        message_of<Error>([&] { test.backward(); }), "expected a mean over all ranks"));
  });
}

TEST(PostLocalSgdRanks, HundredStepsTrainAsWithout) {
  for (const int64_t start : {0, 20})
    for (const bool pairs : {false, true})
      run_world(Backend::Local, 4, [=](const comm::Group& group) {
        HookCase plain(group, one_bucket({}));
        const double before = plain.loss();
        plain.train(100, 0.5);
        PostLocalSgdOptions options{.start_round = start};
        if (pairs)
          options.subgroup = group.split(group.rank() / 2, group.rank());
        HookCase test(group, tiny_buckets({make_post_local_sgd_hook(options)}));
        PeriodicAverager averager(
            test.parameters(), group, {.period = 4, .warm_up_steps = start});
        for (int step = 0; step < 100; ++step) {
          test.train(1, 0.5);
          averager.after_step();
        }
        EXPECT_TRUE(same_everywhere(group, test.parameters()));
        EXPECT_NEAR(test.loss(), plain.loss(), 0.05 * before);
      });
}

TEST(PeriodicAveragerRanks, AveragesWhenAPeriodEnds) {
  run_both(2, [](const comm::Group& group) {
    const auto values = rank_values(group);
    PeriodicAverager averager(values, group, {.period = 2, .warm_up_steps = 3});
    for (int step = 1; step <= 4; ++step)
      EXPECT_FALSE(averager.after_step()) << step;
    EXPECT_TRUE(all_are(values, group.rank()));
    EXPECT_TRUE(averager.after_step());
    EXPECT_TRUE(all_are(values, 0.5));
    EXPECT_FALSE(averager.after_step());
    EXPECT_EQ(averager.steps(), 6);

    PeriodicAverager resumed(values, group, {.period = 2, .warm_up_steps = 3});
    resumed.set_steps(averager.steps());
    EXPECT_TRUE(resumed.after_step());
  });
}

TEST(PeriodicAveragerRanks, RefusesNonsense) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto values = rank_values(group);
    const auto refused = [&](const PeriodicOptions& options) {
      return message_of<InvalidArgument>(
          [&] { const PeriodicAverager averager(values, group, options); });
    };
    EXPECT_TRUE(contains(refused({.period = 0}), "a period of at least 1, got 0"));
    EXPECT_TRUE(contains(refused({.warm_up_steps = -1}), "warm_up_steps"));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>(
            [&] { const PeriodicAverager averager({}, group, {}); }),
        "parameters to average, got none"));
    PeriodicAverager averager(values, group, {});
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { averager.set_steps(-1); }), "got -1"));
  });
}

TEST(HierarchicalAveragerRanks, UsesTheLargestPeriod) {
  run_world(Backend::Local, 8, [](const comm::Group& group) {
    const auto values = rank_values(group);
    HierarchicalAverager averager(
        values, group, {.levels = {{2, 2}, {4, 4}, {8, 8}}, .warm_up_steps = 1});
    const int64_t wanted[] = {0, 0, 2, 0, 4, 0, 2, 0, 8};
    for (const int64_t period : wanted) {
      EXPECT_EQ(averager.after_step(), period);
      if (period == 0)
        continue;
      const auto size = static_cast<int>(period);  // as many ranks as steps here
      EXPECT_TRUE(all_are(values, group.rank() / size * size + (size - 1) / 2.0))
          << period;
      for (const at::Tensor& tensor : values)
        tensor.fill_(group.rank());
    }
    EXPECT_EQ(averager.steps(), 9);
    averager.set_steps(2);
    EXPECT_EQ(averager.after_step(), 2);
  });
}

TEST(HierarchicalAveragerRanks, OneLevelIsPeriodic) {
  run_both(2, [](const comm::Group& group) {
    const auto values = rank_values(group);
    HierarchicalAverager averager(values, group, {.levels = {{3, 2}}});
    EXPECT_EQ(averager.after_step(), 0);
    EXPECT_EQ(averager.after_step(), 0);
    EXPECT_TRUE(all_are(values, group.rank()));
    EXPECT_EQ(averager.after_step(), 3);
    EXPECT_TRUE(all_are(values, 0.5));
  });
}

TEST(HierarchicalAveragerRanks, RefusesNonsense) {
  run_world(Backend::Local, 4, [](const comm::Group& group) {
    const auto refused = [&](const HierarchicalOptions& options) {
      return message_of<InvalidArgument>([&] {
        const HierarchicalAverager averager(rank_values(group), group, options);
      });
    };
    EXPECT_TRUE(contains(refused({}), "to be all 4 ranks, got 0"));
    EXPECT_TRUE(contains(refused({.levels = {{2, 2}}}), "to be all 4 ranks, got 2"));
    EXPECT_TRUE(contains(refused({.levels = {{2, 3}, {4, 4}}}), "got 4 ranks above 3"));
    EXPECT_TRUE(contains(refused({.levels = {{2, 4}, {4, 4}}}), "got 4 ranks above 4"));
    EXPECT_TRUE(contains(refused({.levels = {{0, 4}}}), "a period of at least 1"));
    EXPECT_TRUE(contains(refused({.levels = {{1, 0}}}), "a group size of at least 1"));
  });
}

}  // namespace
}  // namespace trireme::dp
