#include "trireme/bench/dist_autograd_hybrid.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchHybrid, AllHaveTheSameParts) {
  const HybridParts one, other;
  EXPECT_TRUE(at::equal(one.embedding->weight, other.embedding->weight));
  EXPECT_TRUE(at::equal(one.net->weight, other.net->weight));
  EXPECT_TRUE(at::equal(one.fc1->weight, other.fc1->weight));
  EXPECT_TRUE(at::equal(one.fc2->weight, other.fc2->weight));
}

TEST(BenchHybrid, EachHasABatchOfItsOwn) {
  EXPECT_TRUE(at::equal(HybridBatch(1).ids, HybridBatch(1).ids));
  EXPECT_FALSE(at::equal(HybridBatch(1).ids, HybridBatch(2).ids));
  EXPECT_FALSE(at::equal(HybridBatch(1).dense, HybridBatch(2).dense));
}

TEST(BenchHybrid, KnowsAGradientFromAnythingElse) {
  const at::Tensor wanted = at::arange(5, at::kFloat);
  expect_gradient(wanted.clone(), wanted, "the same");
  EXPECT_THROW(expect_gradient(wanted + 1, wanted, "the same"), Error);
  EXPECT_THROW(expect_gradient({}, wanted, "the same"), Error);
}

}  // namespace
}  // namespace trireme::bench
