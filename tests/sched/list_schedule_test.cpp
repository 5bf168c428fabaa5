// Schedules that are built by rules.
#include "trireme/sched/list_schedule.h"

#include "brute_force.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

TEST(ListSchedule, TheCapsOf1F1BMake1F1B) {
  const auto schedule = list_schedule(
      {.rank_of_stage = {0, 1, 2}, .microbatches = 6, .costs = {}},
      {.caps = {3, 2, 1}, .split = false});
  ASSERT_TRUE(schedule);
  EXPECT_EQ(
      rows_of(*schedule), rows_of(generate("1F1B", {.ranks = 3, .microbatches = 6})));
}

TEST(ListSchedule, AlwaysComesToAValidEnd) {
  std::mt19937 random(21);
  for (int round = 0; round < 300; ++round) {
    const int P = 1 + round % 4, V = 1 + round % 3;
    const OrderProblem problem{
        .rank_of_stage =
            map_stages(round % 2 == 0 ? StageMap::Loop : StageMap::V, P, P * V),
        .microbatches = 1 + round % 7,
        .costs = random_costs(random, P * V)};
    ListRules rules{
        .caps = {},
        .forward_first = round % 5 == 0,
        .split = round % 3 != 0,
        .patience = 0.25 * (round % 5)};
    for (int r = 0; r < P; ++r)
      rules.caps.push_back(2 * P * V);
    const auto schedule = list_schedule(problem, rules);
    ASSERT_TRUE(schedule);
    const auto flaw = find_flaw(*schedule);
    ASSERT_FALSE(flaw) << flaw->what;
    EXPECT_GT(simulate(*schedule, {.costs = problem.costs}).makespan, 0);
  }
}

TEST(ListSchedule, StopsWhereNothingFits) {
  EXPECT_FALSE(list_schedule(
      {.rank_of_stage = {0}, .microbatches = 1, .costs = {}}, {.caps = {0}}));
  EXPECT_FALSE(list_schedule(
      {.rank_of_stage = {0}, .microbatches = 1, .costs = {}, .memory_limit = 0.5},
      {.caps = {1}}));
}

}  // namespace
}  // namespace trireme::sched
