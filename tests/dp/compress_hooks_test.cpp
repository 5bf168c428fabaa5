#include "trireme/dp/compress_hooks.h"

#include <gtest/gtest.h>

#include "hook_case.h"
#include "trireme/testing/check.h"

namespace trireme::dp {
namespace {

/// Rounds before and after buckets change their order.
constexpr int kRounds = 3;

TEST(CompressHooksRanks, AllreduceEqualsNoHook) {
  for (const int ranks : {2, 4})
    run_both(ranks, [](const comm::Group& group) {
      HookCase plain(group, tiny_buckets({}));
      HookCase hooked(group, tiny_buckets({make_allreduce_hook()}));
      for (int round = 0; round < kRounds; ++round) {
        plain.backward();
        hooked.backward();
        for (size_t i = 0; i < plain.parameters().size(); ++i)
          EXPECT_TRUE(testing::same(hooked.gradients()[i], plain.gradients()[i])) << i;
        plain.sgd(0.1);
        hooked.sgd(0.1);
        plain.zero_grad();
        hooked.zero_grad();
      }
      EXPECT_GT(hooked.replica().reducer().rebuilds(), 0);
    });
}

TEST(CompressHooksRanks, HalvesAreCloseAndEqualEverywhere) {
  // Every rank's value is rounded once, and the mean: two halves of the last bit.
  const std::pair<std::shared_ptr<CommHook> (*)(), double> kinds[] = {
      {make_fp16_hook, 0x1p-10}, {make_bf16_hook, 0x1p-7}};
  for (const auto& [make, precision] : kinds)
    for (const auto& options : {tiny_buckets, one_bucket})
      run_both(2, [&, make = make, precision = precision](const comm::Group& group) {
        HookCase test(group, options({make()}));
        for (int round = 0; round < kRounds; ++round) {
          test.backward();
          const auto wanted = test.mean_gradients();
          double largest = 0;
          for (const at::Tensor& gradient : wanted)
            largest = std::max(largest, gradient.abs().max().item<double>());
          // A mean may cancel out: what counts is the size of what went into it.
          EXPECT_LT(distance(test.gradients(), wanted), 2 * precision * largest);
          EXPECT_TRUE(same_everywhere(group, test.gradients()));
          test.zero_grad();
        }
      });
}

TEST(CompressHooksRanks, NoopKeepsOwnGradients) {
  run_both(2, [](const comm::Group& group) {
    HookCase test(group, tiny_buckets({make_noop_hook()}));
    for (int round = 0; round < kRounds; ++round) {
      test.backward();
      EXPECT_LT(distance(test.gradients(), test.own_gradients()), 1e-7);
      EXPECT_GT(distance(test.gradients(), test.mean_gradients()), 1e-3);
      test.zero_grad();
    }
  });
}

TEST(CompressHooksRanks, HundredStepsTrainAsWithout) {
  run_both(2, [](const comm::Group& group) {
    HookCase plain(group, one_bucket({}));
    const double before = plain.loss();
    plain.train(100, 0.5);
    EXPECT_LT(plain.loss(), 0.5 * before);
    HookCase same(group, tiny_buckets({make_allreduce_hook()}));
    same.train(100, 0.5);
    for (size_t i = 0; i < plain.parameters().size(); ++i)
      EXPECT_TRUE(testing::same(same.parameters()[i], plain.parameters()[i])) << i;
    HookCase half(group, tiny_buckets({make_fp16_hook()}));
    half.train(100, 0.5);
    EXPECT_NEAR(half.loss(), plain.loss(), 0.01 * before);
  });
}

}  // namespace
}  // namespace trireme::dp
