#include "trireme/autograd/node_index.h"

#include <vector>

#include <gtest/gtest.h>

namespace trireme::autograd {
namespace {

/// Addresses that nobody looks behind.
const Node* address(size_t i) {
  return reinterpret_cast<const Node*>(0x10000 + 48 * i);
}

TEST(NodeIndex, NumbersNodesInTheirOrder) {
  NodeIndex index;
  EXPECT_EQ(index.find(address(1)), NodeIndex::kNone);
  for (uint32_t i = 0; i < 1000; ++i) {
    const auto [number, fresh] = index.insert(address(i));
    ASSERT_EQ(number, i);
    ASSERT_TRUE(fresh);
  }
  for (uint32_t i = 0; i < 1000; ++i) {
    const auto [number, fresh] = index.insert(address(i));
    ASSERT_EQ(number, i);
    ASSERT_FALSE(fresh);
    ASSERT_EQ(index.find(address(i)), i);
  }
  EXPECT_EQ(index.find(address(1000)), NodeIndex::kNone);
  EXPECT_EQ(index.size(), 1000U);
}

TEST(NodeIndex, ForgetsAtOnce) {
  NodeIndex index;
  for (uint32_t round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < 100; ++i)
      ASSERT_EQ(index.insert(address(i + round)).number, i);
    index.clear();
    EXPECT_EQ(index.size(), 0U);
    EXPECT_EQ(index.find(address(round)), NodeIndex::kNone);
  }
}

}  // namespace
}  // namespace trireme::autograd
