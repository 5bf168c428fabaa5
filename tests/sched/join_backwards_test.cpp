// Where an I and its W become one backward, and where they stay apart.
#include "trireme/sched/join_backwards.h"

#include "brute_force.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

constexpr int64_t kPlenty = 1'000'000;

int splits(const Schedule& schedule) {
  int found = 0;
  for (const auto& list : schedule.actions)
    for (const Action& action : list)
      found += action.kind() == ActionKind::InputGrad ? 1 : 0;
  return found;
}

TEST(JoinBackwards, OneRankHasNoBubbleToFill) {
  Schedule schedule = from_rows({"0F0,0I0,0F1,0W0,0I1,0W1"});
  EXPECT_EQ(join_backwards(schedule, {}, kPlenty), 6);
  EXPECT_EQ(rows_of(schedule)[0], "0F0,0B0,0F1,0B1");
}

TEST(JoinBackwards, WhatSomebodyWaitsForStaysApart) {
  // A whole backward of stage 1 would let rank 0 wait longer for its gradient.
  Schedule schedule = from_rows({"0F0,0B0", "1F0,1I0,1W0"});
  EXPECT_EQ(join_backwards(schedule, {}, kPlenty), 5);
  EXPECT_EQ(rows_of(schedule)[1], "1F0,1I0,1W0");
}

TEST(JoinBackwards, TheBackwardTakesThePlaceOfTheWeights) {
  // At the place of 0I0 it would hold up 0F1.
  Schedule schedule = from_rows({"0F0,0I0,0F1,0W0,0B1", "1F0,1B0,1F1,1B1"});
  EXPECT_EQ(simulate(schedule, {}).makespan, 11);
  EXPECT_EQ(join_backwards(schedule, {}, kPlenty), 9);
  EXPECT_EQ(rows_of(schedule)[0], "0F0,0F1,0B0,0B1");
}

TEST(JoinBackwards, ABackwardThatCouldNeverStartIsNone) {
  // After 1F1, 1B0 would wait for rank 0, which waits for it; before it, it takes too
  // long.
  Schedule schedule = from_rows({"0F0,0B0,0F1,0B1", "1F0,1I0,1F1,1I1,1W0,1W1"});
  const Schedule before = schedule;
  EXPECT_EQ(join_backwards(schedule, {}, kPlenty), 10);
  EXPECT_TRUE(same(schedule, before));
}

// A cycle is one, even if nothing in it takes time.
TEST(JoinBackwards, ACycleWithoutCostsIsFoundToo) {
  Schedule schedule = from_rows({"0F0,0B0,0F1,0B1", "1F0,1I0,1F1,1W0,1B1"});
  Costs costs;
  costs.stages = {{0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(join_backwards(schedule, costs, kPlenty), 0);
  EXPECT_EQ(simulate(schedule, {.costs = costs}).makespan, 0);
  EXPECT_EQ(rows_of(schedule)[1], "1F0,1B0,1F1,1B1");
}

TEST(JoinBackwards, NothingIsTriedWithoutSteps) {
  Schedule schedule = generate("ZB-H1", {.ranks = 3, .microbatches = 6});
  const Schedule before = schedule;
  EXPECT_EQ(join_backwards(schedule, {}, 0), simulate(before, {}).makespan);
  EXPECT_TRUE(same(schedule, before));
}

// Against simulate(): the time is right, no longer than before, and no single one that
// is left could be joined at no cost.
TEST(JoinBackwards, LeavesNothingThatCouldBeJoined) {
  std::mt19937 random(31);
  int joined = 0, left = 0;
  for (int round = 0; round < 120; ++round) {
    const NamedSize what = random_size(random, 4, 2);
    SCOPED_TRACE(what.describe());
    Schedule schedule = what.make();
    Costs costs = random_costs(random, schedule.stages());
    if (round % 3 == 0) {
      costs.link = {.latency = 1, .bandwidth = 2};
      costs.message_bytes = 3;
    }
    const double before = simulate(schedule, {.costs = costs}).makespan;
    const int split = splits(schedule);
    const double after = join_backwards(schedule, costs, kPlenty);
    ASSERT_FALSE(find_flaw(schedule));
    ASSERT_EQ(simulate(schedule, {.costs = costs}).makespan, after);
    ASSERT_LE(after, before);
    joined += split - splits(schedule);
    left += splits(schedule);
    for (size_t r = 0; r < schedule.actions.size(); ++r)
      for (const Action& action : schedule.actions[r])
        if (action.kind() == ActionKind::InputGrad) {
          Schedule more = schedule;
          auto& list = more.actions[r];
          const int stage = action.stage(), m = action.microbatch();
          std::erase(list, Action(ActionKind::WeightGrad, stage, m));
          std::replace(
              list.begin(), list.end(), action, Action(ActionKind::Backward, stage, m));
          ASSERT_GT(simulate(more, {.costs = costs}).makespan, after);
        }
  }
  EXPECT_GT(joined, 100);
  EXPECT_GT(left, 100);
}

}  // namespace
}  // namespace trireme::sched
