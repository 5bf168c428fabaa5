#include "trireme/model/layer_cache.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

at::Tensor part(int64_t t, double value, int64_t n = 2) {
  return at::full({n, 3, t, 4}, value);
}

TEST(LayerCache, PutsNewPositionsBehind) {
  LayerCache cache;
  cache.append(part(2, 1), part(2, -1));
  const auto [keys, values] = cache.append(part(1, 2), part(1, -2));
  EXPECT_EQ(cache.length, 3);
  EXPECT_TRUE(testing::same(keys, at::cat({part(2, 1), part(1, 2)}, 2)));
  EXPECT_TRUE(testing::same(values, -keys));
}

TEST(LayerCache, CopiesSeldom) {
  LayerCache cache;
  int moves = 0;
  const void* at = nullptr;
  for (int i = 0; i < 1000; ++i) {
    cache.append(part(1, i), part(1, i));
    moves += cache.keys.data_ptr() != at ? 1 : 0;
    at = cache.keys.data_ptr();
  }
  EXPECT_LE(moves, 6);
  EXPECT_EQ(cache.keys[0][0][999][0].item<double>(), 999);
  EXPECT_EQ(cache.keys[0][0][0][0].item<double>(), 0);
}

TEST(LayerCache, AnotherBatchIsRefusedUntilItIsEmpty) {
  LayerCache cache;
  cache.append(part(2, 1), part(2, 1));
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>(
          [&] { cache.append(part(1, 1, 5), part(1, 1, 5)); }),
      "call reset() before another batch"));
  cache.length = 0;
  EXPECT_EQ(cache.append(part(1, 1, 5), part(1, 1, 5)).first.size(0), 5);
}

}  // namespace
}  // namespace trireme::model
