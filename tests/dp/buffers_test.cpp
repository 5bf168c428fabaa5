#include "trireme/dp/buffers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::same;

/// A buffer and a counter of each rank, after a sync of this mode from rank 1.
void expect_after(const BufferOptions& options, double value, int64_t count) {
  testing::run_world(testing::Backend::Local, 2, [&](const comm::Group& group) {
    const at::Tensor mean = at::full({3}, group.rank() + 1.0);
    const at::Tensor number = at::full({}, 10 + group.rank(), at::kLong);
    sync_buffers(group, {{"mean", mean}, {"number", number}}, options, 1);
    if (options.mode == BufferMode::Off) {
      EXPECT_EQ(mean[0].item<double>(), group.rank() + 1.0);
      return;
    }
    EXPECT_TRUE(same(mean, at::full({3}, value)));
    EXPECT_EQ(number.item<int64_t>(), count);
  });
}

TEST(BuffersRanks, EveryMode) {
  expect_after({.mode = BufferMode::Off}, 0, 0);
  expect_after({.mode = BufferMode::Broadcast}, 2, 11);
  expect_after({.mode = BufferMode::Average}, 1.5, 10);
  expect_after(
      {.mode = BufferMode::Hook,
       .hook =
           [](const comm::Group&, const NamedBuffers& buffers) {
             EXPECT_EQ(buffers[1].first, "number");
             buffers[0].second.fill_(7);
             buffers[1].second.fill_(8);
           }},
      7,
      8);
}

}  // namespace
}  // namespace trireme::dp
