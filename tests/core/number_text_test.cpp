#include "trireme/core/number_text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Thousands, CommasStandBetweenGroupsOfThree) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1000), "1,000");
  EXPECT_EQ(with_thousands(1234567), "1,234,567");
  EXPECT_EQ(with_thousands(-123), "-123");
  EXPECT_EQ(with_thousands(-123456), "-123,456");
}

}  // namespace
}  // namespace trireme
