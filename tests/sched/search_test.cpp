// The search against all schedules there are.
#include "trireme/sched/search.h"

#include "brute_force.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

void expect_optimal(const Costs& costs, int P, int M, const std::vector<int>& caps) {
  SearchProblem problem{.microbatches = M, .costs = costs};
  for (int r = 0; r < P; ++r)
    problem.rank_of_stage.push_back(r);
  // Every stage keeps as much, so that one number is the cap of all.
  const bool capped = caps[0] < M;
  if (capped)
    problem.memory_limit = caps[0];
  const SearchResult result = search(problem, {.width = 1 << 20});
  const double best = brute_force(costs, P, M, caps);
  ASSERT_TRUE(result.schedule);
  EXPECT_TRUE(result.exact);
  EXPECT_EQ(result.makespan, best);
  const Simulation simulation = simulate(*result.schedule, {.costs = costs});
  EXPECT_EQ(simulation.makespan, best);
  for (const int64_t peak : simulation.peak_activations)
    EXPECT_LE(peak, caps[0]);
}

TEST(Search, EqualsAllSchedulesOfTwoRanks) {
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    const int M = 1 + round % 3;
    Costs costs = random_costs(random, 2);
    if (round % 4 == 3)
      costs.link.latency = 1 + round % 5;
    SCOPED_TRACE(text("round ", round));
    expect_optimal(costs, 2, M, {M, M});
  }
}

TEST(Search, EqualsAllSchedulesOfTwoRanksWithFour) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    Costs costs = random_costs(random, 2);
    if (round % 4 == 3)
      costs.link.latency = 2;
    SCOPED_TRACE(text("round ", round));
    expect_optimal(costs, 2, 4, {4, 4});
  }
}

TEST(Search, EqualsAllSchedulesOfThreeRanks) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(text("round ", round));
    expect_optimal(random_costs(random, 3), 3, 1 + round % 2, {2, 2, 2});
  }
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(text("round ", round));
    Costs costs = random_costs(random, 3);
    if (round % 4 == 3)
      costs.link.latency = 2;
    expect_optimal(costs, 3, 3, {3, 3, 3});
  }
}

TEST(Search, IsOptimalUnderACapOfMemory) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const int M = 2 + round % 3, cap = 1 + round % (M - 1);
    SCOPED_TRACE(text("round ", round, " M ", M, " cap ", cap));
    expect_optimal(random_costs(random, 2), 2, M, {cap, cap});
  }
}

TEST(Search, FindsNothingThatDoesNotFit) {
  const SearchResult result = search(
      {.rank_of_stage = {0, 1}, .microbatches = 2, .costs = {}, .memory_limit = 0.5});
  EXPECT_FALSE(result.schedule);
}

TEST(Search, LooksOnlyForWhatIsBetter) {
  const SearchProblem problem{.rank_of_stage = {0, 1}, .microbatches = 3, .costs = {}};
  const double best = search(problem, {.width = 1 << 20}).makespan;
  const SearchResult none = search(problem, {.better_than = best, .width = 1 << 20});
  EXPECT_FALSE(none.schedule);
  EXPECT_TRUE(none.exact);
  const SearchResult some =
      search(problem, {.better_than = best + 1, .width = 1 << 20});
  EXPECT_EQ(some.makespan, best);
}

TEST(Search, ANarrowSearchDoesNotClaimToBeExact) {
  std::mt19937 random(6);
  const SearchProblem problem{
      .rank_of_stage = {0, 1, 2, 3},
      .microbatches = 6,
      .costs = random_costs(random, 4)};
  const SearchResult narrow = search(problem, {.width = 1});
  ASSERT_TRUE(narrow.schedule);
  EXPECT_FALSE(find_flaw(*narrow.schedule));
  EXPECT_EQ(
      simulate(*narrow.schedule, {.costs = problem.costs}).makespan, narrow.makespan);
  const SearchResult wide = search(problem, {.width = 300});
  EXPECT_LE(wide.makespan, narrow.makespan);
  EXPECT_FALSE(narrow.exact && wide.makespan < narrow.makespan);
}

TEST(Search, SeveralStagesARank) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const SearchProblem problem{
        .rank_of_stage =
            map_stages(round % 2 == 0 ? StageMap::Loop : StageMap::V, 2, 4),
        .microbatches = 2,
        .costs = random_costs(random, 4)};
    const SearchResult result = search(problem, {.width = 1 << 14});
    ASSERT_TRUE(result.schedule);
    EXPECT_FALSE(find_flaw(*result.schedule));
    EXPECT_EQ(
        simulate(*result.schedule, {.costs = problem.costs}).makespan, result.makespan);
  }
}

TEST(Search, RefusesProblemsThatAreNone) {
  const auto refused = [](SearchProblem problem) {
    return refusal([&] { search(problem); });
  };
  EXPECT_TRUE(contains(refused({}), "at least one stage and one microbatch, got 0"));
  EXPECT_TRUE(contains(
      refused({.rank_of_stage = {0}, .microbatches = 0, .costs = {}}), "got 1 and 0"));
  EXPECT_TRUE(contains(
      refused({.rank_of_stage = {0, -1}, .microbatches = 1, .costs = {}}),
      "got rank -1"));
  EXPECT_TRUE(contains(
      refused({.rank_of_stage = {0, 1000000000}, .microbatches = 1, .costs = {}}),
      "got rank 1000000000"));
  EXPECT_TRUE(contains(
      refused({.rank_of_stage = {0}, .microbatches = 2000000000, .costs = {}}),
      "take a schedule with a name"));
  SearchProblem problem{.rank_of_stage = {0, 1}, .microbatches = 1, .costs = {}};
  problem.costs.stages.resize(5);
  EXPECT_TRUE(contains(refused(problem), "the costs of 2 stages"));
  problem.costs.stages.resize(1);
  problem.memory_limit = std::nan("");
  EXPECT_TRUE(contains(refused(problem), "memory limit"));
}

}  // namespace
}  // namespace trireme::sched
