#include "trireme/dp/batch_statistics.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "close.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;

at::Tensor random(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes, at::detail::createCPUGenerator(17), type);
}

void expect_statistics_of(
    const BatchStatistics& got, const at::Tensor& whole, double rtol = 1e-6) {
  const at::Tensor values = whole.to(at::kDouble).transpose(0, 1).flatten(1);
  EXPECT_EQ(got.count, values.size(1));
  EXPECT_TRUE(close(got.mean, values.mean(1), 1e-6, 1e-7));
  EXPECT_TRUE(close(got.variance, values.var(1, false), rtol, 0));
}

TEST(BatchStatistics, OfOneRank) {
  for (const at::Tensor& x :
       {random({7, 3}),
        random({4, 3, 5}),
        random({2, 3, 4, 5}),
        random({2, 3, 2, 2, 3}, at::kDouble),
        random({1, 1}),
        random({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast),
        random({5, 4, 3}).transpose(0, 2)})
    expect_statistics_of(batch_statistics(x, {}), x);
}

TEST(BatchStatistics, ComputeShortTypesInFloat) {
  const at::Tensor x = random({300, 2}).add(20).to(at::kBFloat16);
  expect_statistics_of(batch_statistics(x, {}), x);
  EXPECT_EQ(to_compute_type(x).scalar_type(), at::kFloat);
  EXPECT_EQ(compute_type(at::kHalf), at::kFloat);
  EXPECT_EQ(compute_type(at::kDouble), at::kDouble);
}

TEST(BatchStatistics, OfNothing) {
  const BatchStatistics got = batch_statistics(at::empty({0, 3, 4}), {});
  EXPECT_EQ(got.count, 0);
  EXPECT_TRUE(got.mean.isfinite().all().item<bool>());
  EXPECT_TRUE(got.variance.isfinite().all().item<bool>());
}

// The square of the mean is 1e8 times the variance, and float32 has 7 digits: what
// takes the difference of the two has none left. A rank's own mean is a float32, off by
// up to 5e-4 here, which moves the variance by that times the distance between means.
TEST(BatchStatisticsRanks, KeepTheirDigitsFarFromZero) {
  testing::run_world(Backend::Local, 4, [](const comm::Group& world) {
    const at::Tensor whole = random({64, 3, 5}).add(10000);
    const BatchStatistics got =
        batch_statistics(whole.narrow(0, 16 * world.rank(), 16), world);
    expect_statistics_of(got, whole, 1e-4);
  });
}

void merge_uneven(Backend backend) {
  testing::run_world(backend, 4, [](const comm::Group& world) {
    const std::vector<int64_t> starts{0, 5, 5, 6, 20};  // rank 1 has none
    const at::Tensor whole = random({20, 3, 2});
    const auto rank = static_cast<size_t>(world.rank());
    const BatchStatistics got =
        batch_statistics(whole.slice(0, starts[rank], starts[rank + 1]), world);
    expect_statistics_of(got, whole);
    at::Tensor all = at::empty({4, 3}, at::kDouble);
    comm::all_gather(world, all, got.variance);
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_TRUE(testing::same(all[i], got.variance));
  });
}

TEST(BatchStatisticsRanks, MergeBatchesOfAnySize) {
  merge_uneven(Backend::Local);
}

TEST(BatchStatisticsProcs, MergeBatchesOfAnySize) {
  merge_uneven(Backend::Shm);
}

}  // namespace
}  // namespace trireme::dp
