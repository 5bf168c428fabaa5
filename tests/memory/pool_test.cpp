// Caches together: reuse, owners, threads that end, sizes.
#include "trireme/memory/pool.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "fake_system.h"

namespace trireme::memory {
namespace {

using PoolUnit = PoolCase;

TEST_F(PoolUnit, GivesAlignedWritableMemory) {
  for (std::size_t bytes = 1; bytes < std::size_t{8} << 20; bytes += bytes / 3 + 1) {
    Block* block = pool_.take(a_, bytes);
    ASSERT_NE(block, nullptr);
    ASSERT_GE(block->capacity, bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % kAlignment, 0u);
    ASSERT_EQ(Block::of(block->data()), block);
    std::memset(block->data(), 1, bytes);
    pool_.give_back(a_, *block);
  }
}

TEST_F(PoolUnit, UsesABlockAgain) {
  Block* first = pool_.take(a_, 1000);
  pool_.give_back(a_, *first);
  Block* second = pool_.take(a_, 1024);
  EXPECT_EQ(second, first);
  pool_.give_back(a_, *second);
  const PoolStats stats = pool_.stats();
  EXPECT_EQ(stats.allocations, 2);
  EXPECT_EQ(stats.cache_hits, 1);
  EXPECT_EQ(stats.cached_bytes, 1024);
  EXPECT_EQ(stats.system_bytes, 1024 + 64);
}

TEST_F(PoolUnit, ABlockGoesBackToItsOwner) {
  Block* block = pool_.take(a_, 1000);
  pool_.give_back(b_, *block);
  EXPECT_EQ(pool_.stats().cached_bytes, 1024);
  Block* of_b = pool_.take(b_, 1000);
  EXPECT_NE(of_b, block);
  EXPECT_EQ(pool_.take(a_, 1000), block);
  pool_.give_back(a_, *of_b);
  pool_.give_back(nullptr, *block);
}

TEST_F(PoolUnit, OneThatAllocatesAndOneThatFreesStayBounded) {
  for (int i = 0; i < 10'000; ++i) {
    Block* small = pool_.take(a_, 500);
    Block* large = pool_.take(a_, 70'000);
    pool_.give_back(b_, *small);
    pool_.give_back(b_, *large);
  }
  EXPECT_EQ(FakeSystem::used.load(), (512u + 64u) + (80u * 1024u + 64u));
}

TEST_F(PoolUnit, ANewThreadTakesOverWhatAnEndedOneLeft) {
  touch(a_, 5000);
  pool_.retire(*a_);
  EXPECT_EQ(pool_.adopt(), a_);
  EXPECT_EQ(pool_.stats().cached_bytes, 5120);
  touch(a_, 5000);
  EXPECT_EQ(pool_.stats().cache_hits, 1);
}

TEST_F(PoolUnit, BlocksOfAnEndedThreadGoToTheSystem) {
  Block* block = pool_.take(a_, 5000);
  pool_.retire(*a_);
  pool_.give_back(b_, *block);
  EXPECT_EQ(FakeSystem::used.load(), 0u);
}

TEST_F(PoolUnit, AThreadWithoutACacheIsServedByTheSystem) {
  Block* block = pool_.take(nullptr, 5000);
  EXPECT_EQ(pool_.stats().allocations, 1);
  pool_.give_back(a_, *block);
  EXPECT_EQ(FakeSystem::used.load(), 0u);
  block = pool_.take(a_, 5000);
  pool_.give_back(nullptr, *block);
  EXPECT_EQ(pool_.take(a_, 5000), block);
  pool_.give_back(a_, *block);
}

TEST_F(PoolUnit, LargeBlocksAreNotKept) {
  pool_.set_limits({.cached_bytes = kMany, .largest_bytes = 4096});
  touch(a_, 4096);
  EXPECT_EQ(pool_.stats().cached_bytes, 4096);
  Block* block = pool_.take(a_, 4097);
  EXPECT_EQ(block->capacity, 4160u) << "no size class: nobody else will use it";
  pool_.give_back(a_, *block);
  EXPECT_EQ(pool_.stats().cached_bytes, 4096);
}

TEST_F(PoolUnit, AbsurdSizesAreRefused) {
  EXPECT_EQ(pool_.take(a_, kLargestRequest + 1), nullptr);
  EXPECT_EQ(pool_.take(a_, ~std::size_t{0}), nullptr);
  EXPECT_EQ(pool_.take(nullptr, ~std::size_t{0}), nullptr);
}

// Threads that allocate, hand blocks around and end, while others release and count.
TEST(PoolRanks, NoTwoThreadsHaveTheSameBlock) {
  const FakeSystem system;
  Pool pool(
      {.cached_bytes = 256 << 10, .largest_bytes = 64 << 10}, FakeSystem::functions());
  constexpr std::size_t kSlots = 16;
  std::array<std::atomic<Block*>, kSlots> exchange{};
  const auto work = [&](std::size_t id) {
    for (int life = 0; life < 10; ++life) {
      ThreadCache* mine = pool.adopt();
      for (std::size_t i = 0; i < 300; ++i) {
        Block* block = pool.take(mine, 1 + (i * 7919 + id * 31) % 100'000);
        ASSERT_NE(block, nullptr);
        std::memset(block->data(), static_cast<int>(id), 64);
        ASSERT_EQ(*static_cast<unsigned char*>(block->data()), id);
        if (Block* other = exchange[(i + id) % kSlots].exchange(block)) {
          pool.give_back(mine, *other);
        }
        if (i % 100 == id) {
          pool.release_cached(mine);
        }
        ASSERT_GE(pool.stats().system_bytes, 0);
      }
      pool.retire(*mine);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t id = 0; id < 4; ++id) {
    threads.emplace_back(work, id);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (auto& slot : exchange) {
    if (Block* left = slot.load()) {
      pool.give_back(nullptr, *left);
    }
  }
  EXPECT_EQ(pool.stats().allocations, 4 * 10 * 300);
  pool.release_cached(nullptr);
  EXPECT_EQ(FakeSystem::used.load(), 0u);
}

}  // namespace
}  // namespace trireme::memory
