#include "trireme/rpc/task_ring.h"

#include <vector>

#include <gtest/gtest.h>

#include "cargo.h"

namespace trireme::rpc {

using RingCargo = Cargo<struct TaskRingTest>;

TEST(TaskRing, GivesTasksInTheOrderInWhichTheyCame) {
  TaskRing ring;
  std::vector<int> seen;
  std::vector<int> expected;
  int next = 0;
  // Grows while its first task is in the middle, and comes round many times.
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 7; ++i, ++next) {
      expected.push_back(next);
      ring.push([&seen, number = next] { seen.push_back(number); });
    }
    for (int i = 0; i < 4; ++i)
      ring.pop()();
  }
  EXPECT_EQ(ring.size(), 150u);
  while (ring.size() != 0)
    ring.pop()();
  EXPECT_EQ(seen, expected);
}

TEST(TaskRing, HoldsWhatIsInItAndNoMore) {
  {
    TaskRing ring;
    for (int i = 0; i < 40; ++i)
      ring.push([cargo = RingCargo(i)] {});
    for (int i = 0; i < 30; ++i)
      ring.pop();
    EXPECT_EQ(RingCargo::alive, 10);
  }
  EXPECT_EQ(RingCargo::alive, 0);
}

}  // namespace trireme::rpc
