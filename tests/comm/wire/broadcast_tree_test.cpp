// Who hands what is broadcast to whom.
#include "trireme/comm/wire/broadcast_tree.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

// Everybody but the root is the child of its parent, and nobody else's.
template <class Make>
void expect_tree(const Make& make, int size) {
  std::vector<int> parent(static_cast<size_t>(size), -1);
  for (int rank = 0; rank < size; ++rank)
    for (const int child : make(rank, size).children) {
      ASSERT_GT(child, rank);  // so there is no circle
      ASSERT_LT(child, size);
      EXPECT_EQ(parent[static_cast<size_t>(child)], -1);
      parent[static_cast<size_t>(child)] = rank;
    }
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(make(rank, size).parent, parent[static_cast<size_t>(rank)]);
}

TEST(BroadcastTree, ReachesEverybodyOnce) {
  for (int size = 1; size < 40; ++size) {
    expect_tree(binomial_tree, size);
    expect_tree(chain_tree, size);
  }
}

TEST(BroadcastTree, IsALogarithmDeep) {
  const auto depth = [](int rank, int size) {
    int steps = 0;
    for (; rank != 0; rank = binomial_tree(rank, size).parent)
      ++steps;
    return steps;
  };
  for (int rank = 0; rank < 16; ++rank)
    EXPECT_LE(depth(rank, 16), 4);
  EXPECT_EQ(binomial_tree(0, 16).children, (std::vector{8, 4, 2, 1}));
}

}  // namespace
}  // namespace trireme::comm
