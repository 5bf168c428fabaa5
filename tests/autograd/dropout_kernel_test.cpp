#include "trireme/autograd/dropout_kernel.h"

#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

namespace trireme::autograd {
namespace {

DropoutMask mask_of(int64_t samples, int64_t size) {
  return {
      .stream = RandomStream({.seed = 1}, 2),
      .first_sample = 7,
      .samples = samples,
      .size = size,
      .threshold = 1U << 30,
      .scale = 4.0 / 3};
}

/// Which elements stay, number by number.
std::vector<bool> expected(const DropoutMask& mask) {
  std::vector<bool> stays;
  uint32_t numbers[RandomStream::kGroup];
  for (int64_t k = 0; k < mask.samples; ++k)
    for (int64_t i = 0; i < mask.size; ++i) {
      const uint64_t sample = mask.first_sample + static_cast<uint64_t>(k);
      mask.stream.draw(sample, static_cast<uint64_t>(i / 64), numbers);
      stays.push_back(numbers[i % 64] >= mask.threshold);
    }
  return stays;
}

template <class T>
class DropoutKernel : public ::testing::Test {};
using Types = ::testing::Types<float, double, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(DropoutKernel, Types);

TYPED_TEST(DropoutKernel, KeepsWhatTheNumbersSay) {
  constexpr auto dtype = c10::CppTypeToScalarType<TypeParam>::value;
  using Wide = std::conditional_t<std::is_same_v<TypeParam, double>, double, float>;
  EXPECT_TRUE(has_mask_kernel(dtype));
  for (const int64_t size : {0, 1, 63, 64, 65, 1000}) {
    const DropoutMask mask = mask_of(3, size);
    std::vector<TypeParam> in(static_cast<size_t>(3 * size)),
        out(in.size(), TypeParam(9));
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = static_cast<TypeParam>(static_cast<float>(i % 100) + 1);
    apply_mask(mask, dtype, in.data(), out.data(), 2, 3);  // in any pieces
    apply_mask(mask, dtype, in.data(), out.data(), 0, 2);
    const std::vector<bool> stays = expected(mask);
    for (size_t i = 0; i < in.size(); ++i) {
      const auto product = static_cast<TypeParam>(
          static_cast<Wide>(in[i]) * static_cast<Wide>(mask.scale));
      ASSERT_EQ(out[i], stays[i] ? product : TypeParam(0)) << size << ", " << i;
    }
  }
}

TEST(DropoutKernelTypes, AreThoseWithFractions) {
  EXPECT_FALSE(has_mask_kernel(c10::kLong));
  EXPECT_FALSE(has_mask_kernel(c10::kComplexFloat));
}

}  // namespace
}  // namespace trireme::autograd
