// Every class, from both sides of its borders.
#include "trireme/core/size_class.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(SizeClass, FirstClassesAreMultiplesOfTheSmallest) {
  const std::size_t expected[] = {
      64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(class_capacity(i), expected[i]);
  }
}

TEST(SizeClass, BordersAreExact) {
  EXPECT_EQ(size_class_of(1), 0u);
  std::size_t below = 0;
  for (std::size_t i = 0; i < kSizeClasses; ++i) {
    const std::size_t capacity = class_capacity(i);
    ASSERT_GT(capacity, below);
    ASSERT_EQ(capacity % kSizeClassStep, 0u);
    ASSERT_EQ(size_class_of(below + 1), i);
    ASSERT_EQ(size_class_of(capacity - 1), i);
    ASSERT_EQ(size_class_of(capacity), i);
    ASSERT_EQ(size_class_of(capacity + 1), i + 1);
    below = capacity;
  }
  EXPECT_EQ(below, kLargestRequest);
}

TEST(SizeClass, EverySmallSizeFitsWithAtMostAQuarterWasted) {
  for (std::size_t bytes = 1; bytes <= std::size_t{1} << 20; ++bytes) {
    const std::size_t size_class = size_class_of(bytes);
    const std::size_t capacity = class_capacity(size_class);
    ASSERT_GE(capacity, bytes);
    ASSERT_LT(capacity - bytes, kSizeClassStep + bytes / 4) << bytes;
    ASSERT_TRUE(size_class == 0 || class_capacity(size_class - 1) < bytes) << bytes;
  }
}

TEST(SizeClass, AbsurdSizesAreBeyondAllClasses) {
  EXPECT_EQ(size_class_of(kLargestRequest), kSizeClasses - 1);
  EXPECT_GE(size_class_of(kLargestRequest + 1), kSizeClasses);
  EXPECT_GE(size_class_of(~std::size_t{0}), kSizeClasses);
}

static_assert(class_capacity(size_class_of(1000)) == 1024, "usable at compile time");

}  // namespace
}  // namespace trireme
