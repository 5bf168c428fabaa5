// The one type of time limit: it ends, never goes below zero and never lasts for ever.
#include "trireme/core/deadline.h"

#include <thread>

#include <gtest/gtest.h>

namespace trireme {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Deadline, OneInTheFutureHasNotExpired) {
  const auto deadline = Deadline::after(hours(1));
  EXPECT_FALSE(deadline.expired());
  EXPECT_LE(deadline.remaining(), hours(1));
  EXPECT_GT(deadline.remaining(), hours(1) - seconds(30));
}

TEST(Deadline, ZeroAndNegativeTimesHaveExpired) {
  EXPECT_TRUE(Deadline::after(milliseconds(0)).expired());
  EXPECT_TRUE(Deadline::after(milliseconds(-5)).expired());
}

TEST(Deadline, RemainingIsNeverNegative) {
  EXPECT_EQ(
      Deadline::after(seconds(-5)).remaining(), Deadline::Clock::duration::zero());
}

TEST(Deadline, ExpiresWhenItsTimeIsOver) {
  const auto deadline = Deadline::after(milliseconds(5));
  std::this_thread::sleep_for(milliseconds(6));
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.remaining(), Deadline::Clock::duration::zero());
}

TEST(Deadline, NoneIsLongerThanADay) {
  EXPECT_LE(Deadline::after(hours(1000)).remaining(), hours(24));
  EXPECT_LE(Deadline::after(milliseconds::max()).remaining(), hours(24));
  EXPECT_FALSE(Deadline::after(milliseconds::max()).expired());
}

TEST(Deadline, RemembersTheTimeThatWasGiven) {
  EXPECT_EQ(Deadline::after(milliseconds(1500)).allowed(), milliseconds(1500));
}

TEST(Deadline, CopiesEndTogether) {
  const auto deadline = Deadline::after(milliseconds(0));
  const Deadline copy = deadline;
  EXPECT_TRUE(copy.expired());
}

}  // namespace
}  // namespace trireme
