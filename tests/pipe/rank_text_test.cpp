#include "trireme/pipe/rank_text.h"

#include <gtest/gtest.h>

namespace trireme::pipe {
namespace {

TEST(RankText, AddsTheRankInTheWorldWhereItDiffers) {
  EXPECT_EQ(rank_text(1, {}), "rank 1");
  EXPECT_EQ(rank_text(1, {0, 1}), "rank 1");
  EXPECT_EQ(rank_text(1, {2, 3}), "rank 1 (world rank 3)");
}

}  // namespace
}  // namespace trireme::pipe
