#include "trireme/autograd/saved_surroundings.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

namespace trireme::autograd {
namespace {

TEST(SavedSurroundings, SetWhatWasThere) {
  std::optional<SavedSurroundings> saved;
  {
    const RandomScope random(RandomContext{.seed = 3});
    at::autocast::set_autocast_enabled(at::kCPU, true);
    saved.emplace(false);
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  const c10::AutoGradMode grad_mode(false);
  {
    const SavedSurroundings::Scope scope(*saved);
    EXPECT_TRUE(c10::GradMode::is_enabled());
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
    EXPECT_EQ(current_random()->seed, 3U);
  }
  EXPECT_FALSE(c10::GradMode::is_enabled());
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  EXPECT_FALSE(current_random());
}

TEST(SavedSurroundings, TakeTheGeneratorIfAsked) {
  const SavedSurroundings with(true), without(false);
  const at::Tensor first = at::rand({4}), second = at::rand({4});
  {
    const SavedSurroundings::Scope scope(with);
    EXPECT_TRUE(at::equal(at::rand({4}), first));
    const SavedSurroundings::Scope inner(without);
    EXPECT_TRUE(at::equal(at::rand({4}), second));
  }
  EXPECT_FALSE(at::equal(at::rand({4}), second));
}

TEST(WithoutCastCache, PutsTheCacheBack) {
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  {
    const WithoutCastCache outer;
    {
      const WithoutCastCache inner;
      EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
    }
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
  }
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

}  // namespace
}  // namespace trireme::autograd
