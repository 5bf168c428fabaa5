#include "trireme/data/permutation.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::data {
namespace {

std::vector<int64_t> order(int64_t size, uint64_t seed, uint64_t stream = 0) {
  const Permutation permutation(size, seed, stream);
  std::vector<int64_t> items;
  for (int64_t i = 0; i < size; ++i)
    items.push_back(permutation(i));
  return items;
}

// Written down once: a run that goes on elsewhere, or with a later version, must find
// the order that it began with.
TEST(Permutation, IsTheSameForEver) {
  EXPECT_EQ(order(10, 7), (std::vector<int64_t>{4, 2, 5, 8, 0, 1, 3, 9, 6, 7}));
  EXPECT_EQ(order(10, 7, 1), (std::vector<int64_t>{8, 1, 2, 6, 3, 7, 5, 0, 9, 4}));
  EXPECT_EQ(Permutation(1'000'000'007, 42)(123'456'789), 824'232'498);
}

TEST(Permutation, GivesEveryItemOnce) {
  for (int64_t size = 1; size < 300; ++size) {
    std::vector<int64_t> items = order(size, 3, static_cast<uint64_t>(size));
    std::sort(items.begin(), items.end());
    for (int64_t i = 0; i < size; ++i)
      ASSERT_EQ(items[static_cast<size_t>(i)], i) << size;
  }
  const std::vector<int64_t> many = order(100'003, 5);
  EXPECT_EQ(std::set(many.begin(), many.end()).size(), 100'003U);
  EXPECT_EQ(*std::max_element(many.begin(), many.end()), 100'002);
}

TEST(Permutation, HasNoLimitButTheNumbers) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  const Permutation large(most, 1);
  std::set<int64_t> items;
  for (int64_t i = 0; i < 1000; ++i) {
    items.insert(large(i));
    items.insert(large(most - 1 - i));
  }
  EXPECT_EQ(items.size(), 2000U);
  EXPECT_GE(*items.begin(), 0);
  EXPECT_LT(*items.rbegin(), most);
}

TEST(Permutation, DependsOnSeedAndStream) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (uint64_t stream = 0; stream < 20; ++stream)
      orders.insert(order(100, seed, stream));
  EXPECT_EQ(orders.size(), 400U);
}

double chi_squared(const std::vector<int>& counts, double expected) {
  double sum = 0;
  for (const int count : counts)
    sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Above 49.7 (23 degrees of freedom) once in a thousand. The numbers are always the
// same, so this passes always or never; and so below.
TEST(Permutation, FavoursNoOrderOfFewItems) {
  constexpr int kTimes = 24000;
  std::map<std::vector<int64_t>, int> seen;
  for (uint64_t stream = 0; stream < kTimes; ++stream)
    ++seen[order(4, 11, stream)];
  std::vector<int> counts;
  for (const auto& [items, count] : seen)
    counts.push_back(count);
  EXPECT_EQ(counts.size(), 24U);
  EXPECT_LT(chi_squared(counts, kTimes / 24.0), 49.7);
}

// Where an item goes: 10 by 10 parts of the order, 81 degrees of freedom, above 126
// once in a thousand.
TEST(Permutation, FavoursNoPlace) {
  constexpr int64_t kSize = 50'021;
  const std::vector<int64_t> items = order(kSize, 9);
  std::vector<int> counts(100);
  for (int64_t i = 0; i < kSize; ++i)
    ++counts[static_cast<size_t>(
        i * 10 / kSize * 10 + items[static_cast<size_t>(i)] * 10 / kSize)];
  EXPECT_LT(chi_squared(counts, kSize / 100.0), 126);
}

// Neighbours of one epoch are none in the next: of a random order, about one pair in
// 50,000 stays together.
TEST(Permutation, PartsNeighbours) {
  const std::vector<int64_t> items = order(50'021, 9);
  int64_t together = 0;
  int64_t rises = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    together += std::abs(items[i] - items[i - 1]) == 1 ? 1 : 0;
    rises += items[i] > items[i - 1] ? 1 : 0;
  }
  EXPECT_LT(together, 12);
  EXPECT_NEAR(static_cast<double>(rises), 25'010, 300);
}

TEST(Permutation, RefusesAnEmptyOrder) {
  EXPECT_THROW(Permutation(0, 1), InvalidArgument);
  EXPECT_THROW(Permutation(-5, 1), InvalidArgument);
  EXPECT_THROW(Permutation(5, 1)(5), InternalError);
}

}  // namespace
}  // namespace trireme::data
