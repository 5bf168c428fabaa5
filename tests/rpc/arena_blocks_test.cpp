#include "trireme/rpc/arena_blocks.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::rpc {

TEST(ArenaBlocks, WhatCameBackIsUsedAgainFirst) {
  ArenaBlocks blocks(10 * 4096);
  EXPECT_EQ(blocks.take(1), 0u);
  EXPECT_EQ(blocks.take(4097), 4096u);
  EXPECT_EQ(blocks.take(0), 3 * 4096u);
  EXPECT_EQ(blocks.taken(), 3u);
  EXPECT_EQ(blocks.taken_bytes(), 4 * 4096u);
  EXPECT_TRUE(blocks.give_back(4096));
  EXPECT_EQ(blocks.take(8192), 4096u);
  EXPECT_EQ(blocks.take(6 * 4096), 4 * 4096u);
  EXPECT_EQ(blocks.take(1), std::nullopt);
}

TEST(ArenaBlocks, WhatWasNotTakenCannotComeBack) {
  ArenaBlocks blocks(4 * 4096);
  EXPECT_FALSE(blocks.give_back(0));
  blocks.take(8192);
  EXPECT_FALSE(blocks.give_back(4096));
  EXPECT_TRUE(blocks.give_back(0));
  EXPECT_FALSE(blocks.give_back(0));
}

TEST(ArenaBlocks, TooLargeIsNoRoom) {
  ArenaBlocks blocks(3 * 4096 + 100);
  EXPECT_EQ(blocks.take(3 * 4096 + 1), std::nullopt);
  EXPECT_EQ(blocks.take(~std::uint64_t{0}), std::nullopt);
  EXPECT_EQ(blocks.take(3 * 4096), 0u);
  EXPECT_EQ(ArenaBlocks(0).take(1), std::nullopt);
}

TEST(ArenaBlocks, BlocksNeverOverlapAndAllRoomComesBack) {
  constexpr std::uint64_t kPages = 64;
  ArenaBlocks blocks(kPages * 4096);
  std::minstd_rand random(3);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  std::vector<int> owners(kPages);
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      const std::uint64_t pages = 1 + random() % 9;
      const auto offset = blocks.take(pages * 4096 - random() % 4096);
      if (!offset)
        continue;
      for (std::uint64_t page = 0; page < pages; ++page)
        ASSERT_EQ(owners[*offset / 4096 + page]++, 0);
      taken.emplace_back(*offset, pages);
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      const auto [offset, pages] = taken.back();
      taken.pop_back();
      ASSERT_TRUE(blocks.give_back(offset));
      for (std::uint64_t page = 0; page < pages; ++page)
        --owners[offset / 4096 + page];
    }
  }
  for (const auto& [offset, pages] : taken)
    blocks.give_back(offset);
  EXPECT_EQ(blocks.taken(), 0u);
  EXPECT_EQ(blocks.taken_bytes(), 0u);
  EXPECT_EQ(blocks.take(kPages * 4096), 0u);
}

}  // namespace trireme::rpc
