// Asking again and again, with pauses.
#include "trireme/comm/mpi/mpi_wait.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;

TEST(MpiWait, AsksAtLeastOnce) {
  EXPECT_TRUE(poll_until([] { return true; }, {}, Deadline::after(milliseconds(-1))));
  EXPECT_FALSE(poll_until([] { return false; }, {}, Deadline::after(milliseconds(-1))));
}

TEST(MpiWait, AsksUntilItIsSo) {
  int asked = 0;
  const auto poll = [&asked] { return ++asked == 100; };
  EXPECT_TRUE(poll_until(poll, {}, Deadline::after(std::chrono::minutes(1))));
  EXPECT_EQ(asked, 100);
}

TEST(MpiWait, GivesUpAtTheDeadlineAndSleepsOnTheWay) {
  int asked = 0;
  const auto poll = [&asked] {
    ++asked;
    return false;
  };
  const auto start = Deadline::Clock::now();
  const PollPolicy policy{
      .spin = std::chrono::microseconds(0),
      .yield = std::chrono::microseconds(0),
      .sleep = std::chrono::microseconds(1000)};
  EXPECT_FALSE(poll_until(poll, policy, Deadline::after(milliseconds(50))));
  EXPECT_GE(Deadline::Clock::now() - start, milliseconds(50));
  EXPECT_LE(asked, 60);
}

TEST(MpiWait, SpinsOnlyWhereEveryRankHasACore) {
  EXPECT_GT(poll_policy(1).spin.count(), 0);
  EXPECT_EQ(poll_policy(1 << 20).spin.count(), 0);
}

}  // namespace
}  // namespace trireme::comm
