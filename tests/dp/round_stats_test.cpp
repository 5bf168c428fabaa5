#include "trireme/dp/round_stats.h"

#include <gtest/gtest.h>

namespace trireme::dp {
namespace {

TEST(RoundStats, Sums) {
  RoundStats stats;
  EXPECT_EQ(stats.bytes(), 0);
  EXPECT_EQ(stats.overlap_share(), 0);
  stats.backward_end_ns = 100;
  stats.buckets = {
      {.bytes = 8, .start_ns = 10, .end_ns = 30},
      {.bytes = 4, .start_ns = 90, .end_ns = 110},
      {.bytes = 2, .start_ns = 120, .end_ns = 160},
      {.bytes = 1, .skipped = true}};
  EXPECT_EQ(stats.bytes(), 14);
  EXPECT_EQ(stats.comm_ns(), 80);
  EXPECT_EQ(stats.overlap_ns(), 30);
  EXPECT_EQ(stats.overlap_share(), 0.375);
}

TEST(RoundStats, TheClockGoesForward) {
  const int64_t before = now_ns();
  EXPECT_GE(now_ns(), before);
}

}  // namespace
}  // namespace trireme::dp
