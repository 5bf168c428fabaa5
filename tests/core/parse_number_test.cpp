#include "trireme/core/parse_number.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ParseNumber, TakesAllOrNothing) {
  EXPECT_EQ(parse_number<int>("12"), 12);
  EXPECT_EQ(parse_number<int>("-3"), -3);
  EXPECT_EQ(parse_number<double>("0.5"), 0.5);
  for (const char* wrong : {"", " 1", "1 ", "+1", "x", "1x", "99999999999"})
    EXPECT_EQ(parse_number<int>(wrong), std::nullopt) << wrong;
  EXPECT_EQ(parse_number<std::uint64_t>("-1"), std::nullopt);
}

}  // namespace
}  // namespace trireme
