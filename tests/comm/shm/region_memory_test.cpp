#include "trireme/comm/shm/region_memory.h"

#include <cstring>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

TEST(RegionMemory, KeepsEveryRankInItsOwnRegion) {
  const auto segment = Segment::create(3);
  const SegmentHeader& header = segment->header();
  for (int rank = 0; rank < 3; ++rank) {
    RegionMemory memory(segment, rank);
    const uint64_t begin =
        header.regions_begin + header.region_bytes * static_cast<uint64_t>(rank);
    for (int i = 0; i < 10; ++i) {
      const uint64_t offset = memory.allocate(100000);
      EXPECT_GE(offset, begin);
      EXPECT_LE(offset + 100000, begin + header.region_bytes);
      std::memset(memory.at(offset), rank, 100000);
    }
  }
}

TEST(RegionMemory, KnowsWhatThePeersCanReach) {
  const auto segment = Segment::create(2);
  RegionMemory mine(segment, 0), theirs(segment, 1);
  const std::byte* inside = theirs.at(theirs.allocate(64));
  EXPECT_TRUE(mine.contains(inside, 64));
  int outside = 0;
  EXPECT_FALSE(mine.contains(&outside, sizeof outside));
  EXPECT_FALSE(mine.contains(segment->base() + segment->bytes() - 8, 9));
  EXPECT_TRUE(mine.contains(segment->base() + segment->bytes() - 8, 8));
  EXPECT_FALSE(mine.contains(inside, ~size_t{0}));
}

TEST(RegionMemory, RefusesMoreThanARegion) {
  const auto segment = Segment::create(1);
  RegionMemory memory(segment, 0);
  EXPECT_THROW(memory.allocate(segment->header().region_bytes + 1), InvalidArgument);
  const uint64_t block = memory.allocate(1000);
  memory.release(block);
  EXPECT_EQ(memory.allocate(500), block);
}

}  // namespace
}  // namespace trireme::comm
