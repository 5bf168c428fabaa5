#include "trireme/comm/shared/rank_cores.h"

#include <initializer_list>
#include <sched.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/machine.h"

namespace trireme::comm {
namespace {

RankCores on(std::initializer_list<int> cpus, int quota = 0) {
  RankCores cores;
  for (const int cpu : cpus)
    cores.add(cpu);
  cores.quota = quota;
  return cores;
}
bool spins(const std::vector<RankCores>& ranks) {
  const WaitPolicy policy = wait_policy(ranks);
  EXPECT_NE(policy.spin.count() > 0, policy.yield.count() > 0);
  return policy.spin.count() > 0;
}

TEST(RankCores, OfPinnedRanksAddUp) {
  EXPECT_EQ(cores_together(std::vector{on({0}), on({1})}), 2);
  EXPECT_EQ(cores_together(std::vector{on({0, 1}), on({2, 3}), on({1000})}), 5);
}

TEST(RankCores, ThatAreSharedCountOnce) {
  EXPECT_EQ(cores_together(std::vector{on({0, 1}), on({0, 1})}), 2);
  EXPECT_EQ(cores_together(std::vector{on({0}), on({0}), on({1})}), 2);
}

TEST(RankCores, AreNoMoreThanTheQuota) {
  EXPECT_EQ(cores_together(std::vector{on({0}, 2), on({1}, 2), on({2}, 2)}), 2);
  EXPECT_EQ(cores_together(std::vector{on({0}, 3), on({1})}), 2);
}

TEST(RankCores, AreAtLeastOne) {
  EXPECT_EQ(cores_together(std::vector{on({}), on({})}), 1);
  EXPECT_EQ(cores_together(std::vector{on({-1, RankCores::kMostCpus})}), 1);
}

TEST(RankCores, LetRanksSpinWhileEachHasOne) {
  EXPECT_TRUE(spins({on({0}), on({1})})) << "pinned";
  EXPECT_TRUE(spins({on({0, 1}), on({0, 1})})) << "not pinned";
  EXPECT_FALSE(spins({on({0}), on({0})}));
  EXPECT_FALSE(spins({on({0, 1}), on({0, 1}), on({0, 1})}));
  EXPECT_FALSE(spins({on({0}, 1), on({1}, 1)})) << "a quota of one core for both";
}

TEST(RankCores, AreThoseOfTheThread) {
  std::thread([] {
    const int here = ::sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(here), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    const RankCores mine = RankCores::of_this_thread();
    EXPECT_EQ(mine.cpus, on({here}).cpus);
    EXPECT_EQ(mine.quota, cpu_quota());
  }).join();
}

}  // namespace
}  // namespace trireme::comm
