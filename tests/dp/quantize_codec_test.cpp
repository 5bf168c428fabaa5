#include "trireme/dp/quantize_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::dp {
namespace {

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
