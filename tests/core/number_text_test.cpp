#include "trireme/core/number_text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(NumberText, CommasStandBetweenGroupsOfThree) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1000), "1,000");
  EXPECT_EQ(with_thousands(1234567), "1,234,567");
  EXPECT_EQ(with_thousands(-123), "-123");
  EXPECT_EQ(with_thousands(-123456), "-123,456");
}

TEST(NumberText, WritesBytesForPeople) {
  EXPECT_EQ(bytes_text(7), "7 bytes");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(int64_t{3} << 19), "1.5 MiB");
  EXPECT_EQ(bytes_text(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(bytes_text(340ULL << 20), "340 MiB");
  EXPECT_EQ(bytes_text((23ULL << 30) + (1ULL << 29)), "23.5 GiB");
  EXPECT_EQ(bytes_text(~0ULL), "16777216 TiB");
}

}  // namespace
}  // namespace trireme
