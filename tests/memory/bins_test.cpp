// Last in, first out within a class; the class that rested longest goes first.
#include "trireme/memory/bins.h"

#include <set>

#include <gtest/gtest.h>

namespace trireme::memory {
namespace {

Block block_of_class(std::size_t size_class) {
  Block block;
  block.size_class = size_class;
  return block;
}

TEST(Bins, GiveTheWarmestBlockOfTheClass) {
  Bins bins;
  Block a = block_of_class(3);
  Block b = block_of_class(3);
  Block other = block_of_class(4);
  bins.push(a, 1);
  bins.push(b, 2);
  bins.push(other, 3);
  EXPECT_EQ(bins.pop(3, 4), &b);
  EXPECT_EQ(bins.pop(3, 5), &a);
  EXPECT_EQ(bins.pop(3, 6), nullptr);
  EXPECT_EQ(bins.pop(4, 7), &other);
}

TEST(Bins, TheOldestClassGoesFirst) {
  Bins bins;
  Block a = block_of_class(0);
  Block b = block_of_class(kSizeClasses - 1);
  Block c = block_of_class(7);
  bins.push(a, 1);
  bins.push(b, 2);
  bins.push(c, 3);
  EXPECT_EQ(bins.pop(0, 4), &a);
  bins.push(a, 4);
  EXPECT_EQ(bins.pop_oldest(), &b);
  EXPECT_EQ(bins.pop_oldest(), &c);
  EXPECT_EQ(bins.pop_oldest(), &a);
  EXPECT_EQ(bins.pop_oldest(), nullptr);
}

TEST(Bins, TakeAllLeavesNothing) {
  Bins bins;
  Block a = block_of_class(0);
  Block b = block_of_class(0);
  Block c = block_of_class(9);
  Block rest = block_of_class(1);
  bins.push(a, 1);
  bins.push(b, 1);
  bins.push(c, 1);
  std::set<Block*> all;
  for (Block* one = bins.take_all(&rest); one != nullptr; one = one->next) {
    EXPECT_TRUE(all.insert(one).second);
  }
  EXPECT_EQ(all, (std::set<Block*>{&a, &b, &c, &rest}));
  EXPECT_EQ(bins.take_all(nullptr), nullptr);
}

}  // namespace
}  // namespace trireme::memory
