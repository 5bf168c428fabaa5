// Who comes together when a group is split.
#include "trireme/comm/split_wish.h"

#include <gtest/gtest.h>

#include "trireme/comm/init.h"

namespace trireme::comm {
namespace {

TEST(SplitWishRanks, OrdersByKeyAndThenByRank) {
  run_local(5, [](const Group& world) {
    const Group reversed = world.split(0, -world.rank());
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    const int rank = reversed.rank();
    const SplitWish wish =
        share_wishes(reversed.engine(), rank == 0 ? -1 : 3, rank % 2, deadline);
    if (rank == 0) {
      EXPECT_TRUE(wish.ranks.empty());
      return;
    }
    EXPECT_EQ(wish.ranks, (std::vector{2, 4, 1, 3}));
    EXPECT_EQ(wish.members, (std::vector{2, 0, 3, 1}));
    EXPECT_EQ(wish.ranks[static_cast<size_t>(wish.rank)], rank);
  });
}

}  // namespace
}  // namespace trireme::comm
