#include "trireme/autograd/random_stream.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::autograd {
namespace {

TEST(RandomStream, DrawsTheNumbersOfItsKey) {
  const RandomStream stream({.seed = 3, .step = 4}, 5);
  std::vector<uint32_t> numbers(64), wanted(64);
  stream.draw(6, 7, numbers.data());
  philox_groups().back()(stream.key(), 6, 7, wanted.data());
  EXPECT_EQ(numbers, wanted);
}

TEST(RandomStream, DependsOnEverythingThatItIsFor) {
  std::set<uint64_t> keys;
  for (const uint64_t seed : {0, 1, 2})
    for (const uint64_t step : {0, 1, 2})
      for (const uint64_t layer : {0, 1, 2})
        keys.insert(RandomStream({.seed = seed, .step = step}, layer).key());
  EXPECT_EQ(keys.size(), 27U);
  // The sample is not part of the key, but of the counter.
  EXPECT_EQ(
      RandomStream({.first_sample = 1}, 0).key(),
      RandomStream({.first_sample = 2}, 0).key());
}

TEST(LayerKey, IsTheSameEverywhere) {
  EXPECT_EQ(layer_key("block.3.mlp"), 10234273008654319699U);
  EXPECT_EQ(layer_key(""), 14087677454934409008U);
  EXPECT_NE(layer_key("a"), layer_key("b"));
}

TEST(RandomScope, IsOneOfItsThread) {
  EXPECT_FALSE(current_random());
  {
    const RandomScope outer(RandomContext{.seed = 1});
    {
      const RandomScope inner(RandomContext{.seed = 2});
      EXPECT_EQ(current_random()->seed, 2U);
      const RandomScope none(std::nullopt);
      EXPECT_FALSE(current_random());
    }
    EXPECT_EQ(current_random()->seed, 1U);
  }
  EXPECT_FALSE(current_random());
}

}  // namespace
}  // namespace trireme::autograd
