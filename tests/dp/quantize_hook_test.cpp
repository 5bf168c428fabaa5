#include "trireme/dp/quantize_hook.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "hook_case.h"
#include "trireme/comm/collectives.h"
#include "trireme/dp/comm_hook.h"

namespace trireme::dp {
namespace {

/// The documented bound with one chunk for everything: never below that of the chunks.
double bound_of(const comm::Group& group, const HookCase& test) {
  const auto range_of = [](const std::vector<at::Tensor>& tensors) {
    double least = 0;
    double greatest = 0;
    for (const at::Tensor& tensor : tensors) {
      least = std::min(least, tensor.min().item<double>());
      greatest = std::max(greatest, tensor.max().item<double>());
    }
    return greatest - least;
  };
  at::Tensor mine = at::full({1}, range_of(test.own_gradients()), at::kDouble);
  comm::all_reduce(group, mine, {.op = comm::ReduceOp::Mean});
  // The result's range is within that of what went into it.
  return 2 * mine.item<double>() / 510 * 1.001;
}

TEST(QuantizeHookRanks, StaysWithinItsBound) {
  for (const int ranks : {2, 4})
    for (const auto& options : {tiny_buckets, one_bucket})
      run_both(ranks, [&](const comm::Group& group) {
        HookCase test(group, options({make_quantize_hook()}));
        for (int round = 0; round < 3; ++round) {
          test.backward();
          const double lost = distance(test.gradients(), test.mean_gradients());
          EXPECT_LE(lost, bound_of(group, test));
          EXPECT_GT(lost, 0);
          EXPECT_TRUE(same_everywhere(group, test.gradients()));
          test.zero_grad();
        }
      });
}

TEST(QuantizeHookRanks, FeedbackMakesUpForWhatWasLost) {
  constexpr int kRounds = 20;
  run_both(2, [](const comm::Group& group) {
    const auto mean_of_rounds = [&](bool feedback) {
      HookCase test(
          group, tiny_buckets({make_quantize_hook({.error_feedback = feedback})}));
      std::vector<at::Tensor> sums;
      for (int round = 0; round < kRounds; ++round) {
        test.backward();
        for (size_t i = 0; i < test.parameters().size(); ++i)
          if (round == 0)
            sums.push_back(test.gradients()[i] / kRounds);
          else
            sums[i] += test.gradients()[i] / kRounds;
        test.zero_grad();
      }
      return std::pair(distance(sums, test.mean_gradients()), bound_of(group, test));
    };
    // The same gradients every round: with feedback, all that is missing at the end is
    // what the last round has lost.
    const auto [with, bound] = mean_of_rounds(true);
    EXPECT_LT(with, 3 * bound / kRounds);
    EXPECT_GT(mean_of_rounds(false).first, 2 * with);
  });
}

TEST(QuantizeHookRanks, SumsAndWeightsAndHalves) {
  run_both(2, [](const comm::Group& group) {
    DataParallelOptions options = tiny_buckets({make_quantize_hook()});
    options.reduction = Reduction::WeightedMean;
    HookCase weighted(group, options);
    weighted.replica().set_weight(32);
    weighted.backward();
    EXPECT_LE(
        distance(weighted.gradients(), weighted.mean_gradients()),
        bound_of(group, weighted));
    HookCase halves(group, one_bucket({make_fp16_hook(), make_quantize_hook()}));
    halves.backward();
    EXPECT_LE(
        distance(halves.gradients(), halves.mean_gradients()),
        1.5 * bound_of(group, halves));
  });
}

TEST(QuantizeHookRanks, NotANumberReachesAllAndIsForgotten) {
  run_both(2, [](const comm::Group& group) {
    auto spoil = make_hook("spoil", [&](GradBucket& bucket, const auto& next) {
      if (bucket.round() == 0 && group.rank() == 1)
        bucket.buffer()[0] = std::nan("");
      next(bucket);
    });
    HookCase test(
        group, one_bucket({spoil, make_quantize_hook({.error_feedback = true})}));
    const auto troubled = [&] {
      bool found = false;
      for (const at::Tensor& gradient : test.gradients())
        found = found || at::isnan(gradient).any().item<bool>();
      test.zero_grad();
      return found;
    };
    test.backward();
    EXPECT_TRUE(troubled());
    test.backward();
    EXPECT_FALSE(troubled());
  });
}

TEST(QuantizeHookRanks, HundredStepsTrainAsWithout) {
  run_both(2, [](const comm::Group& group) {
    HookCase plain(group, one_bucket({}));
    const double before = plain.loss();
    plain.train(100, 0.5);
    HookCase test(group, tiny_buckets({make_quantize_hook({.error_feedback = true})}));
    test.train(100, 0.5);
    EXPECT_NEAR(test.loss(), plain.loss(), 0.02 * before);
    EXPECT_TRUE(same_everywhere(group, test.parameters()));
  });
}

std::vector<float> some_numbers(size_t chunks) {
  std::vector<float> numbers(chunks * kQuantizeChunk);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::sin(static_cast<float>(i * i % 1009)) *
                 static_cast<float>(i / kQuantizeChunk * 100 + 1);
  return numbers;
}

std::vector<float> there_and_back(const std::vector<float>& numbers) {
  std::vector<uint8_t> bytes(quantized_bytes(numbers.size()));
  quantize(numbers, bytes);
  std::vector<float> out(numbers.size());
  dequantize(bytes, out);
  return out;
}

TEST(QuantizeCodec, LosesHalfAStep) {
  const std::vector<float> numbers = some_numbers(3);
  const std::vector<float> back = there_and_back(numbers);
  double worst = 0;
  for (size_t begin = 0; begin < numbers.size(); begin += kQuantizeChunk) {
    const auto chunk = numbers.begin() + static_cast<ptrdiff_t>(begin);
    const auto [least, greatest] = std::minmax_element(chunk, chunk + kQuantizeChunk);
    const double step = (*greatest - *least) / 255.0;
    for (size_t i = begin; i < begin + kQuantizeChunk; ++i) {
      const double lost = std::abs(numbers[i] - back[i]);
      EXPECT_LE(lost, step * 0.5001) << i;
      worst = std::max(worst, lost / step);
    }
  }
  EXPECT_GT(worst, 0.4);  // it does round
}

TEST(QuantizeCodec, KeepsTheEndsOfARange) {
  std::vector<float> numbers = some_numbers(1);
  const auto [least, greatest] = std::minmax_element(numbers.begin(), numbers.end());
  const auto back = there_and_back(numbers);
  EXPECT_EQ(back[static_cast<size_t>(least - numbers.begin())], *least);
  EXPECT_NEAR(back[static_cast<size_t>(greatest - numbers.begin())], *greatest, 1e-6);
}

TEST(QuantizeCodec, EqualNumbersAreExact) {
  for (const float x : {0.0F, -3.25F, 1e30F, 1e-40F}) {
    const std::vector<float> numbers(kQuantizeChunk, x);
    EXPECT_EQ(there_and_back(numbers), numbers);
  }
}

TEST(QuantizeCodec, TroubleStaysInItsChunk) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    std::vector<float> numbers = some_numbers(2);
    numbers[7] = bad;
    const auto back = there_and_back(numbers);
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(std::isnan(back[i]), i < kQuantizeChunk) << i;
  }
  std::vector<float> wide(kQuantizeChunk, 3e38F);
  wide[1] = -3e38F;
  EXPECT_TRUE(std::isnan(there_and_back(wide)[0]));
}

TEST(QuantizeCodec, Adds) {
  const std::vector<float> numbers = some_numbers(1);
  std::vector<uint8_t> bytes(quantized_bytes(numbers.size()));
  quantize(numbers, bytes);
  std::vector<float> once(numbers.size());
  dequantize(bytes, once);
  std::vector<float> twice = once;
  dequantize_add(bytes, twice);
  for (size_t i = 0; i < once.size(); ++i)
    EXPECT_EQ(twice[i], once[i] + once[i]);
}

}  // namespace
}  // namespace trireme::dp
