#include "trireme/comm/shared/memory.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

TEST(Memory, PlacesBlocksOneAfterTheOther) {
  BlockMap map(1000, 1000 + 1024);
  EXPECT_EQ(map.take(1), 1000U);
  EXPECT_EQ(map.take(128), 1128U);
  EXPECT_EQ(map.take(0), 1256U);
  EXPECT_EQ(map.used(), 384U);
  EXPECT_EQ(map.high_water(), 1384U);
}

TEST(Memory, SaysWhenNothingFits) {
  BlockMap map(0, 512);
  EXPECT_EQ(map.take(513), map.end());
  EXPECT_EQ(map.take(~size_t{0}), map.end());
  EXPECT_EQ(map.take(512), 0U);
  EXPECT_EQ(map.take(1), map.end());
  map.give_back(0);
  EXPECT_EQ(map.take(1), 0U);
}

TEST(Memory, MergesNeighboursWhicheverIsFreedFirst) {
  for (const std::vector<size_t>& order :
       {std::vector<size_t>{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    BlockMap map(0, 384);
    const std::vector<uint64_t> blocks = {map.take(128), map.take(128), map.take(128)};
    for (const size_t i : order)
      map.give_back(blocks[i]);
    EXPECT_EQ(map.used(), 0U);
    EXPECT_EQ(map.take(384), 0U);
  }
}

TEST(Memory, TakesTheTightestHole) {
  BlockMap map(0, 4096);
  const uint64_t large = map.take(512);
  map.take(128);
  const uint64_t small = map.take(256);
  map.take(128);
  map.give_back(large);
  map.give_back(small);
  EXPECT_EQ(map.take(200), small);
  EXPECT_EQ(map.take(400), large);
}

TEST(Memory, RefusesABlockThatItDidNotGive) {
  BlockMap map(0, 1024);
  map.take(256);
  EXPECT_THROW(map.give_back(128), InternalError);
}

// Random work against a plain list: no two blocks ever overlap, and all comes back.
TEST(Memory, NeverHandsOutTheSameBytesTwice) {
  std::mt19937 random(7);
  BlockMap map(4096, 4096 + (1 << 20));
  std::map<uint64_t, uint64_t> live;
  for (int i = 0; i < 4000; ++i) {
    if (live.empty() || random() % 3 != 0) {
      const uint64_t bytes = random() % 9000 + 1;
      const uint64_t offset = map.take(bytes);
      if (offset == map.end())
        continue;
      const auto after = live.lower_bound(offset);
      if (after != live.end()) {
        ASSERT_LE(offset + bytes, after->first);
      }
      if (after != live.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, offset);
      }
      live.emplace(offset, bytes);
    } else {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      map.give_back(victim->first);
      live.erase(victim);
    }
  }
  for (const auto& [offset, bytes] : live)
    map.give_back(offset);
  EXPECT_EQ(map.used(), 0U);
  EXPECT_EQ(map.high_water(), map.begin());
}

TEST(Memory, OfTheHeapIsAllShared) {
  HeapMemory memory;
  const uint64_t block = memory.allocate(100);
  EXPECT_EQ(block % SharedMemory::kBlockAlignment, 0U);
  EXPECT_TRUE(memory.contains(&memory, 1));
  EXPECT_EQ(memory.offset_of(memory.at(block)), block);
  memory.release(block);
  EXPECT_THROW(memory.release(block), InternalError);
  memory.allocate(50);  // freed with the memory: the leak check would notice
}

TEST(Memory, KeepsWhatIsRetiredUntilItCanGo) {
  HeapMemory memory;
  int tries = 0;
  bool free = false;
  memory.retire([&] {
    ++tries;
    return free;
  });
  EXPECT_EQ(tries, 1);
  memory.reclaim();
  EXPECT_EQ(tries, 2);
  free = true;
  memory.reclaim();
  memory.reclaim();
  EXPECT_EQ(tries, 3);
}

// A message that nobody received may hold anything, also what has memory of its own to
// give back.
TEST(Memory, LetsGoOfWhatWasRetiredWithoutItsLock) {
  HeapMemory memory;
  bool free = false;
  int again = 0;
  const auto retires = [&](int*) { memory.retire([&] { return ++again > 0; }); };
  memory.retire(
      [&free, held = std::shared_ptr<int>(nullptr, retires)] { return free; });
  free = true;
  memory.reclaim();
  EXPECT_EQ(again, 1);
}

}  // namespace
}  // namespace trireme::comm
