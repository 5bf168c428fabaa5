#include "trireme/comm/shared/meeting.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

TEST(Meeting, CanBeWithdrawnFromWhileSomebodyIsMissing) {
  Meeting meeting;
  EXPECT_FALSE(meeting.arrive(1, 3));
  EXPECT_FALSE(meeting.arrive(1, 3));
  EXPECT_TRUE(meeting.withdraw(1, 3));
  EXPECT_FALSE(meeting.arrive(1, 3));
  EXPECT_FALSE(meeting.step.reached(1));
  EXPECT_TRUE(meeting.arrive(1, 3));
  EXPECT_TRUE(meeting.step.reached(1));
  EXPECT_FALSE(meeting.withdraw(1, 3));
}

// A rank that gives up may be slow: others have passed meanwhile, and are at the next
// step. Their arrivals are not its own.
TEST(Meeting, TakesBackNobodyElsesArrivalAtTheNextStep) {
  Meeting meeting;
  for (int rank = 0; rank < 3; ++rank)
    meeting.arrive(1, 3);
  EXPECT_FALSE(meeting.arrive(2, 3));
  EXPECT_FALSE(meeting.withdraw(1, 3));
  EXPECT_EQ(meeting.arrivals.load(), 4U);
}

TEST(Meeting, GoesOnWhenTheCounterWrapsAround) {
  Meeting meeting;
  const uint32_t last = (uint32_t{1} << 31) - 1;  // twice that is nearly 2^32
  meeting.arrivals = last * 2;
  EXPECT_FALSE(meeting.arrive(last + 1, 2));
  EXPECT_TRUE(meeting.withdraw(last + 1, 2));
  EXPECT_FALSE(meeting.arrive(last + 1, 2));
  EXPECT_TRUE(meeting.arrive(last + 1, 2));
  EXPECT_FALSE(meeting.withdraw(last + 1, 2));
}

}  // namespace
}  // namespace trireme::comm
