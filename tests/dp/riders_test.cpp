#include "trireme/dp/riders.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

TEST(Riders, CountsAreExactUpTo256Ranks) {
  for (const c10::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat})
    for (int ranks = 1; ranks <= 256; ++ranks) {
      const at::Tensor counts = at::arange(ranks + 1, at::kDouble).to(dtype);
      const std::vector<int64_t> sums = read_counts(counts);
      const std::vector<int64_t> means =
          read_counts(counts.div(static_cast<double>(ranks)), ranks);
      for (int64_t k = 0; k <= ranks; ++k) {
        EXPECT_EQ(sums[static_cast<size_t>(k)], k) << dtype;
        ASSERT_EQ(means[static_cast<size_t>(k)], k) << dtype << " of " << ranks;
      }
    }
}

TEST(Riders, OneOfVeryManyIsNotZero) {
  for (const int ranks : {300, 1000, 5000})
    EXPECT_EQ(read_counts(at::ones({1}, at::kBFloat16).div(ranks), ranks)[0], 1);
}

TEST(Riders, FlagsComeBack) {
  const std::vector<uint8_t> flags = {1, 0, 0, 1, 1};
  for (const c10::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kComplexDouble}) {
    const at::Tensor riders = at::full({5}, 7, dtype);
    write_flags(riders, flags);
    EXPECT_EQ(read_counts(riders), (std::vector<int64_t>{1, 0, 0, 1, 1}));
  }
  write_flags(at::empty({0}), {});
  EXPECT_TRUE(read_counts(at::empty({0})).empty());
}

TEST(Riders, CountsAsBits) {
  const int64_t most = (int64_t{1} << kCountElements) - 1;
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{12345678901}, most}) {
    std::vector<uint8_t> flags;
    append_bits(flags, count);
    EXPECT_EQ(flags.size(), kCountElements);
    EXPECT_EQ(sum_of_bits(std::vector<int64_t>(flags.begin(), flags.end())), count);
    std::vector<int64_t> three(flags.begin(), flags.end());
    for (int64_t& bit : three)
      bit *= 3;
    EXPECT_EQ(sum_of_bits(three), 3 * count);
  }
  std::vector<uint8_t> flags;
  EXPECT_THROW(append_bits(flags, -1), InvalidArgument);
  EXPECT_THROW(append_bits(flags, most + 1), InvalidArgument);
}

}  // namespace
}  // namespace trireme::dp
