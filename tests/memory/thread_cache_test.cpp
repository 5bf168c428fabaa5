// One cache: its owner's bins, what others give back, and the counts.
#include "trireme/memory/thread_cache.h"

#include <array>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::memory {
namespace {

constexpr std::size_t kBytes = 1024;
constexpr std::size_t kClass = size_class_of(kBytes);

class ThreadCacheCase : public ::testing::Test {
 protected:
  ThreadCacheCase() {
    for (Block& block : blocks_) {
      block.size_class = kClass;
      block.capacity = kBytes;
      block.owner = &cache_;
    }
  }
  std::int64_t cached() const { return total_.load() + cache_.unreported(); }

  std::atomic<std::int64_t> total_{0};
  ThreadCache cache_{total_};
  std::array<Block, 4> blocks_;
};

using ThreadCacheUnit = ThreadCacheCase;

TEST_F(ThreadCacheUnit, CountsAllocationsAndHits) {
  EXPECT_EQ(cache_.pop(kClass), nullptr);
  cache_.push(blocks_[0]);
  EXPECT_EQ(cached(), 1024);
  EXPECT_EQ(cache_.pop(kClass), &blocks_[0]);
  EXPECT_EQ(cached(), 0);
  EXPECT_EQ(cache_.allocations(), 2);
  EXPECT_EQ(cache_.hits(), 1);
}

TEST_F(ThreadCacheUnit, TheOwnerFindsWhatOthersGaveBack) {
  cache_.push_from_elsewhere(blocks_[0]);
  cache_.push_from_elsewhere(blocks_[1]);
  EXPECT_EQ(cached(), 2048) << "it is cached from the moment it was given back";
  EXPECT_EQ(cache_.pop(kClass), nullptr);
  EXPECT_NE(cache_.pop_after_collecting(kClass), nullptr);
  EXPECT_NE(cache_.pop(kClass), nullptr);
  EXPECT_EQ(cached(), 0);
  EXPECT_EQ(cache_.pop_after_collecting(kClass), nullptr);
  EXPECT_EQ(cache_.allocations(), 2);
  EXPECT_EQ(cache_.hits(), 2);
}

TEST_F(ThreadCacheUnit, LargeChangesReachTheTotalAtOnce) {
  blocks_[0].capacity = ThreadCache::kReportStep;
  cache_.push(blocks_[1]);
  EXPECT_EQ(total_.load(), 0);
  cache_.push(blocks_[0]);
  EXPECT_EQ(total_.load(), ThreadCache::kReportStep + 1024);
  EXPECT_EQ(cache_.unreported(), 0);
}

TEST_F(ThreadCacheUnit, TakeAllTakesBothKinds) {
  cache_.push(blocks_[0]);
  cache_.push_from_elsewhere(blocks_[1]);
  Block* list = cache_.take_all(&blocks_[2]);
  int length = 0;
  for (; list != nullptr; list = list->next) {
    ++length;
  }
  EXPECT_EQ(length, 3);
  EXPECT_EQ(cached(), 0);
  EXPECT_EQ(total_.load(), 0);
}

TEST_F(ThreadCacheUnit, TheOldestMayComeFromElsewhere) {
  cache_.push_from_elsewhere(blocks_[0]);
  EXPECT_EQ(cache_.pop_oldest(), &blocks_[0]);
  EXPECT_EQ(cache_.pop_oldest(), nullptr);
  EXPECT_EQ(cached(), 0);
}

TEST_F(ThreadCacheUnit, DroppedBlocksAreNotCounted) {
  cache_.push(blocks_[0]);
  cache_.drop_all();
  EXPECT_EQ(cached(), 0);
  EXPECT_EQ(cache_.pop(kClass), nullptr);
}

TEST(ThreadCacheRanks, NothingIsLostBetweenThreads) {
  constexpr std::size_t kBlocks = 3000;
  std::atomic<std::int64_t> total{0};
  ThreadCache cache(total);
  std::vector<Block> blocks(kBlocks);
  for (Block& block : blocks) {
    block.size_class = kClass;
    block.capacity = kBytes;
  }
  std::vector<std::thread> givers;
  for (std::size_t id = 0; id < 3; ++id) {
    givers.emplace_back([&, id] {
      for (std::size_t i = id; i < kBlocks; i += 3) {
        cache.push_from_elsewhere(blocks[i]);
      }
    });
  }
  std::size_t found = 0;
  // The loop ends: every block arrives.
  while (found < kBlocks) {
    if (cache.pop(kClass) != nullptr || cache.pop_after_collecting(kClass) != nullptr) {
      ++found;
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& giver : givers) {
    giver.join();
  }
  EXPECT_EQ(cache.hits(), static_cast<std::int64_t>(kBlocks));
  EXPECT_EQ(total.load() + cache.unreported(), 0);
}

}  // namespace
}  // namespace trireme::memory
