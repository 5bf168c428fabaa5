#include "trireme/net/log_limit.h"

#include <gtest/gtest.h>

namespace trireme::net {
namespace {

using namespace std::chrono_literals;

TEST(LogLimit, LetsSoManyLinesThroughInASecond) {
  LogLimit limit(2);
  const auto start = LogLimit::Time(1h);
  EXPECT_EQ(limit.take("a", start), "a");
  EXPECT_EQ(limit.take("b", start + 100ms), "b");
  EXPECT_EQ(limit.take("c", start + 200ms), std::nullopt);
  EXPECT_EQ(limit.take("d", start + 999ms), std::nullopt);
  EXPECT_EQ(limit.take("e", start + 1s), "e (and 2 others before)");
  EXPECT_EQ(limit.take("f", start + 1s), "f");
}

TEST(LogLimit, TellsTheLastOneWhereNoOtherFollows) {
  LogLimit limit(1);
  const auto start = LogLimit::Time(1h);
  EXPECT_EQ(limit.take_rest(start), std::nullopt);
  EXPECT_EQ(limit.take("a", start), "a");
  EXPECT_EQ(limit.take_rest(start + 2s), std::nullopt);
  EXPECT_EQ(limit.take("b", start + 2s), "b");
  for (const char* line : {"c", "d", "e"})
    EXPECT_EQ(limit.take(line, start + 2s), std::nullopt);
  EXPECT_EQ(limit.take_rest(start + 2500ms), std::nullopt);
  EXPECT_EQ(limit.take_rest(start + 3s), "e (and 2 others before)");
  EXPECT_EQ(limit.take_rest(start + 5s), std::nullopt);
}

}  // namespace
}  // namespace trireme::net
