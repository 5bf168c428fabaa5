#include "trireme/rpc/deadline_queue.h"

#include <gtest/gtest.h>

namespace trireme::rpc {
namespace {

Time at(int seconds) {
  return Time(std::chrono::seconds(seconds));
}

TEST(DeadlineQueue, HandsOutTheEarliestThatHasPassed) {
  DeadlineQueue queue;
  EXPECT_EQ(queue.next(), Time::max());
  EXPECT_EQ(queue.take(at(100)), 0u);
  queue.add(at(3), 30);
  queue.add(at(1), 10);
  queue.add(at(2), 20);
  EXPECT_EQ(queue.next(), at(1));
  EXPECT_EQ(queue.take(at(2)), 10u);
  EXPECT_EQ(queue.take(at(2)), 20u);
  EXPECT_EQ(queue.take(at(2)), 0u);
  EXPECT_EQ(queue.take(at(3)), 30u);
}

TEST(DeadlineQueue, DoesNotGrowWithWhatIsOver) {
  DeadlineQueue queue;
  for (std::uint64_t number = 1; number <= 10'000; ++number) {
    queue.add(at(static_cast<int>(number)), number);
    queue.tidy(1, [&](std::uint64_t other) { return other == number; });
  }
  EXPECT_LT(queue.size(), 100u);
  EXPECT_EQ(queue.next(), at(10'000 - static_cast<int>(queue.size()) + 1));
}

}  // namespace
}  // namespace trireme::rpc
