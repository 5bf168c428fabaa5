#include "trireme/dp/bucket_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

using c10::ScalarType;

std::vector<int> in_order(size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Buckets assign(
    const std::vector<ParameterSize>& sizes, const std::vector<size_t>& limits) {
  return assign_buckets(sizes, in_order(sizes.size()), {limits});
}

/// Floats that take so many bytes each.
std::vector<ParameterSize> floats(const std::vector<int64_t>& bytes) {
  std::vector<ParameterSize> sizes;
  for (const int64_t each : bytes)
    sizes.push_back({.elements = each / 4});
  return sizes;
}

TEST(BucketPlan, OneLimit) {
  EXPECT_EQ(assign(floats({400, 800, 400, 200}), {400}), (Buckets{{0}, {1}, {2}, {3}}));
}

TEST(BucketPlan, OneLimitAndTwoDtypes) {
  std::vector<ParameterSize> sizes;
  for (int i = 0; i < 3; ++i) {
    sizes.push_back({.elements = 50, .dtype = ScalarType::Float});
    sizes.push_back({.elements = 25, .dtype = ScalarType::Double});
  }
  EXPECT_EQ(assign(sizes, {400}), (Buckets{{0, 2}, {1, 3}, {4}, {5}}));
  EXPECT_EQ(assign(sizes, {200, 400}), (Buckets{{0}, {1}, {2, 4}, {3, 5}}));
}

TEST(BucketPlan, ListsOfLimits) {
  EXPECT_EQ(assign(floats({40, 40, 40, 40}), {40, 80}), (Buckets{{0}, {1, 2}, {3}}));
  EXPECT_EQ(assign(floats({40, 40, 40, 40}), {1, 80, 1}), (Buckets{{0}, {1, 2}, {3}}));
  EXPECT_THROW(assign(floats({40}), {}), InvalidArgument);
}

TEST(BucketPlan, SparseOnesAreAlone) {
  std::vector<ParameterSize> sizes = floats({4, 4, 4, 4});
  sizes[1].sparse = true;
  EXPECT_EQ(assign(sizes, {1000}), (Buckets{{1}, {0, 2, 3}}));
}

TEST(BucketPlan, TheOrderIsThatOfTheGradients) {
  const auto sizes = floats({4, 4, 4, 4});
  EXPECT_EQ(reversed_order(4), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(assign_buckets(sizes, reversed_order(4), {{8}}), (Buckets{{3, 2}, {1, 0}}));
}

TEST(BucketPlan, PlacesBeginOnLinesOf64Bytes) {
  const auto sizes = floats({4, 68, 64, 0});
  const Layout layout = lay_out(sizes, {{0, 1}, {2, 3}}, {.first = 3, .last = 20});
  ASSERT_EQ(layout.buffers.size(), 1);
  const BucketRange& first = layout.buckets[0];
  const BucketRange& last = layout.buckets[1];
  EXPECT_EQ(layout.places[0].begin, 0);
  EXPECT_EQ(layout.places[1].begin, 16);
  EXPECT_EQ(first.riders_begin, 48);
  EXPECT_EQ(first.riders, 3);
  EXPECT_EQ(first.elements, 64);
  EXPECT_EQ(layout.places[2].begin, 64);
  EXPECT_EQ(layout.places[3].begin, 80);
  EXPECT_EQ(last.riders_begin, 80);
  EXPECT_EQ(last.riders, 20);
  EXPECT_EQ(layout.buffers[0].elements, 112);
}

TEST(BucketPlan, OneBucketCarriesAllRiders) {
  const Layout layout =
      lay_out(floats({4, 4}), {{0, 1}}, {.first = 3, .parameter = 10, .last = 2});
  EXPECT_EQ(layout.buckets[0].riders, 25);
}

TEST(BucketPlan, RidersAvoidSparseBuckets) {
  std::vector<ParameterSize> sizes = floats({4, 4, 4});
  sizes[0].sparse = sizes[2].sparse = true;
  const Layout layout = lay_out(sizes, {{0}, {1}, {2}}, {3, 1, 2});
  EXPECT_EQ(layout.buckets[0].elements, 0);
  EXPECT_EQ(layout.buckets[1].riders, 6);
  EXPECT_EQ(layout.buckets[2].elements, 0);
  sizes[1].sparse = true;
  EXPECT_TRUE(lay_out(sizes, {{0}, {1}, {2}}, {3, 1, 2}).buffers.empty());
}

TEST(BucketPlan, DriftIsTheShareOfBytesThatMove) {
  const auto sizes = floats({40, 40, 80, 40});
  EXPECT_EQ(drift(sizes, {{0, 1}, {2, 3}}, {{1, 0}, {3, 2}}), 0);
  EXPECT_EQ(drift(sizes, {{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}), 120.0 / 200);
  EXPECT_EQ(drift({}, {}, {}), 0);
}

/// Whatever the sizes: each parameter once, no two on the same place, buckets in the
/// order in which their last parameters come.
TEST(BucketPlan, RandomInputs) {
  const ScalarType dtypes[] = {
      ScalarType::Float,
      ScalarType::Double,
      ScalarType::BFloat16,
      ScalarType::ComplexDouble};
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::vector<ParameterSize> sizes(1 + random() % 30);
    for (ParameterSize& size : sizes)
      size = {
          .elements = random() % 4 == 0 ? 0 : static_cast<int64_t>(random() % 100),
          .dtype = dtypes[random() % 4],
          .sparse = random() % 8 == 0};
    std::vector<int> order = in_order(sizes.size());
    std::shuffle(order.begin(), order.end(), random);
    std::vector<size_t> when(sizes.size());
    for (size_t k = 0; k < order.size(); ++k)
      when[static_cast<size_t>(order[k])] = k;
    const Buckets buckets =
        assign_buckets(sizes, order, {{1 + random() % 200, 1 + random() % 900}});
    const auto riders = [&] { return static_cast<int64_t>(random() % 9); };
    const Layout layout =
        lay_out(sizes, buckets, {.first = riders(), .parameter = 1, .last = riders()});
    std::vector<int> seen(sizes.size(), 0);
    std::map<ScalarType, std::vector<int>> owners;
    for (const Layout::Buffer& buffer : layout.buffers)
      owners[buffer.dtype].assign(static_cast<size_t>(buffer.elements), 0);
    const auto own = [&](ScalarType dtype, int64_t begin, int64_t count) {
      for (int64_t k = begin; k < begin + count; ++k)
        ++owners[dtype].at(static_cast<size_t>(k));
    };
    size_t full = 0;
    for (size_t b = 0; b < buckets.size(); ++b) {
      const BucketRange& range = layout.buckets[b];
      size_t last = 0;
      for (const int i : buckets[b]) {
        const auto p = static_cast<size_t>(i);
        ++seen[p];
        last = std::max(last, when[p]);
        EXPECT_EQ(layout.places[p].bucket, static_cast<int>(b));
        EXPECT_EQ(sizes[p].dtype, range.dtype);
        if (range.sparse)
          continue;
        const auto bytes = static_cast<int64_t>(c10::elementSize(range.dtype));
        EXPECT_EQ(layout.places[p].begin * bytes % 64, 0);
        EXPECT_LE(layout.places[p].begin + sizes[p].elements, range.riders_begin);
        own(range.dtype, layout.places[p].begin, sizes[p].elements);
      }
      EXPECT_GE(last, full);
      full = last;
      if (!range.sparse)
        own(range.dtype, range.riders_begin, range.riders);
      EXPECT_LE(range.riders_begin + range.riders, range.begin + range.elements);
    }
    for (const int count : seen)
      EXPECT_EQ(count, 1);
    for (const auto& [dtype, counts] : owners)
      for (const int count : counts)
        EXPECT_LE(count, 1);
  }
}

}  // namespace
}  // namespace trireme::dp
