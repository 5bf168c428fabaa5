#include "trireme/dp/power_sgd_hook.h"

#include <cmath>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "hook_case.h"
#include "trireme/core/error.h"
#include "trireme/dp/comm_hook.h"
#include "trireme/testing/check.h"

namespace trireme::dp {
namespace {

using testing::contains;
using testing::message_of;

/// Compresses everything that has two dimensions, without loss.
const PowerSgdOptions kExact{.rank = 32, .min_compression_rate = 1e-3};

bool is_compressed(const at::Tensor& gradient) {
  return gradient.dim() == 2;
}

TEST(PowerSgdHook, RefusesBadOptions) {
  const std::pair<PowerSgdOptions, const char*> cases[] = {
      {{.rank = 0}, "rank 1 or more, got 0"},
      {{.start_round = -1}, "round 0 or later, got -1"},
      {{.min_compression_rate = 0}, "above 0, got 0"},
      {{.epsilon = -1e-8}, "got -1e-08"},
      {{.epsilon = std::nan("")}, "got nan"}};
  for (const auto& [options, message] : cases)
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { make_power_sgd_hook(options); }), message));
}

TEST(PowerSgdHook, RefusesBadState) {
  const auto hook = make_power_sgd_hook();
  const auto load = [&](const PowerSgdHook::State& state) {
    return message_of<InvalidArgument>([&] { hook->load_state(state); });
  };
  const at::Tensor round = at::zeros({1}, at::kLong);
  EXPECT_TRUE(contains(load({}), "without its round"));
  for (const char* name : {"error", "error.", "error.x", "error.1x", "p.1", "q.-1"})
    EXPECT_TRUE(contains(load({{"round", round}, {name, at::zeros({2, 2})}}), name));
}

TEST(PowerSgdHookRanks, FullRankLosesNothing) {
  for (const int ranks : {2, 4})
    for (const auto& options : {tiny_buckets, one_bucket})
      run_both(ranks, [&](const comm::Group& group) {
        HookCase test(group, options({make_power_sgd_hook(kExact)}));
        for (int round = 0; round < 3; ++round) {
          test.backward();
          const auto wanted = test.mean_gradients();
          for (size_t i = 0; i < wanted.size(); ++i)
            EXPECT_TRUE(at::allclose(test.gradients()[i], wanted[i], 1e-5, 1e-4)) << i;
          EXPECT_TRUE(same_everywhere(group, test.gradients()));
          test.zero_grad();
        }
      });
}

TEST(PowerSgdHookRanks, LowRankIsEqualEverywhere) {
  run_both(2, [](const comm::Group& group) {
    HookCase plain(group, one_bucket({}));
    HookCase test(group, tiny_buckets({make_power_sgd_hook({.rank = 1})}));
    plain.backward();
    test.backward();
    EXPECT_TRUE(same_everywhere(group, test.gradients()));
    for (size_t i = 0; i < test.parameters().size(); ++i) {
      const at::Tensor got = test.gradients()[i];
      const at::Tensor wanted = plain.gradients()[i];
      if (is_compressed(got)) {
        EXPECT_FALSE(at::allclose(got, wanted, 1e-5, 1e-6));
        // Another vector than the first one is not needed to write it.
        EXPECT_TRUE(at::allclose(
            at::mm(got.narrow(1, 0, 1), got.narrow(0, 0, 1)),
            got * got[0][0],
            1e-3,
            1e-7));
      } else {
        EXPECT_TRUE(testing::same(got, wanted));
      }
    }
  });
}

TEST(PowerSgdHookRanks, StartsWhenToldTo) {
  run_both(2, [](const comm::Group& group) {
    HookCase test(
        group, tiny_buckets({make_power_sgd_hook({.rank = 1, .start_round = 2})}));
    for (int round = 0; round < 4; ++round) {
      test.backward();
      const double lost = distance(test.gradients(), test.mean_gradients());
      EXPECT_EQ(lost > 1e-4, round >= 2) << round << " " << lost;
      test.zero_grad();
    }
  });
}

TEST(PowerSgdHookRanks, FeedbackMakesUpForWhatWasLost) {
  constexpr int kRounds = 60;
  run_both(2, [](const comm::Group& group) {
    const auto lost = [&](Reduction reduction) {
      DataParallelOptions options = one_bucket({make_power_sgd_hook({.rank = 2})});
      options.reduction = reduction;
      HookCase test(group, options);
      double most = 0;
      std::vector<at::Tensor> sums;
      for (int round = 0; round < kRounds; ++round) {
        test.backward();
        for (size_t i = 0; i < test.parameters().size(); ++i)
          if (round == 0)
            sums.push_back(test.gradients()[i]);
          else
            sums[i] += test.gradients()[i];
        test.zero_grad();
      }
      const auto wanted = test.mean_gradients();
      const double times = kRounds * (reduction == Reduction::Sum ? group.size() : 1);
      for (size_t i = 0; i < sums.size(); ++i)
        most = std::max(
            most,
            ((sums[i] / times - wanted[i]).norm() / wanted[i].norm()).item<double>());
      return most;
    };
    EXPECT_LT(lost(Reduction::Mean), 0.1);
    EXPECT_LT(lost(Reduction::Sum), 0.1);
  });
}

TEST(PowerSgdHookRanks, ZeroGradientsDoNotFreezeIt) {
  run_both(2, [](const comm::Group& group) {
    auto zeros = make_hook("zeros", [](GradBucket& bucket, const auto& next) {
      if (bucket.round() == 0)
        bucket.buffer().zero_();
      next(bucket);
    });
    HookCase test(group, tiny_buckets({zeros, make_power_sgd_hook(kExact)}));
    test.backward();
    for (const at::Tensor& gradient : test.gradients())
      EXPECT_TRUE((gradient == 0).all().item<bool>());
    test.zero_grad();
    test.backward();
    EXPECT_LT(distance(test.gradients(), test.mean_gradients()), 1e-4);
  });
}

TEST(PowerSgdHookRanks, NotANumberReachesAllAndIsForgotten) {
  run_both(2, [](const comm::Group& group) {
    auto spoil = make_hook("spoil", [&](GradBucket& bucket, const auto& next) {
      if (bucket.round() == 1 && group.rank() == 1)
        for (const auto& entry : bucket.entries())
          bucket.view(entry).view({-1})[0] = INFINITY;
      next(bucket);
    });
    HookCase test(group, tiny_buckets({spoil, make_power_sgd_hook({.rank = 2})}));
    for (int round = 0; round < 3; ++round) {
      test.backward();
      for (const at::Tensor& gradient : test.gradients())
        EXPECT_EQ(at::isfinite(gradient).all().item<bool>(), round != 1);
      test.zero_grad();
    }
  });
}

TEST(PowerSgdHookRanks, GoesOnFromItsState) {
  for (const bool warm : {true, false})
    run_both(2, [warm](const comm::Group& group) {
      const PowerSgdOptions options{.rank = 2, .start_round = 3, .warm_start = warm};
      const auto hook = make_power_sgd_hook(options);
      HookCase test(group, tiny_buckets({hook}));
      test.train(5, 0.5);
      const auto later = make_power_sgd_hook(options);
      later->load_state(hook->state());
      HookCase resumed(group, tiny_buckets({later}));
      for (size_t i = 0; i < test.parameters().size(); ++i)
        resumed.parameters()[i].data().copy_(test.parameters()[i].data());
      test.train(5, 0.5);
      resumed.train(5, 0.5);
      for (size_t i = 0; i < test.parameters().size(); ++i)
        EXPECT_TRUE(testing::same(resumed.parameters()[i], test.parameters()[i])) << i;
    });
}

TEST(PowerSgdHookRanks, HundredStepsTrainAsWithout) {
  run_both(2, [](const comm::Group& group) {
    HookCase plain(group, one_bucket({}));
    const double before = plain.loss();
    plain.train(100, 0.5);
    for (const bool warm : {true, false}) {
      HookCase test(
          group, tiny_buckets({make_power_sgd_hook({.rank = 2, .warm_start = warm})}));
      test.train(100, 0.5);
      EXPECT_LT(test.loss(), plain.loss() + 0.05 * before) << warm;
      EXPECT_TRUE(same_everywhere(group, test.parameters()));
      HookCase half(
          group,
          one_bucket(
              {make_fp16_hook(),
               make_power_sgd_hook({.rank = 2, .warm_start = warm})}));
      half.train(100, 0.5);
      EXPECT_LT(half.loss(), plain.loss() + 0.05 * before) << warm;
    }
  });
}

}  // namespace
}  // namespace trireme::dp
