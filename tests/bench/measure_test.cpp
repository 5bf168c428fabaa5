#include "trireme/bench/measure.h"

#include <thread>

#include <gtest/gtest.h>

namespace trireme::bench {
namespace {

using namespace std::chrono_literals;

TEST(Measure, RoundsEndWithTheirTimeButNotBeforeTheThird) {
  const auto count = [](const RoundPlan& plan) {
    std::vector<int> rounds;
    repeat_rounds(plan, [&](int round) { rounds.push_back(round); });
    return rounds;
  };
  EXPECT_EQ(count({.rounds = 20, .budget = 0ms}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(count({.rounds = 5, .budget = 1min}), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(count({.rounds = 1, .budget = 0ms}), std::vector<int>{0});
}

TEST(PlanRounds, ComparesAtLeastTwentyPairs) {
  EXPECT_GE(plan_rounds({}).rounds, 20);
}

TEST(PlanRounds, QuickIsShorter) {
  const MeasureOptions quick{.quick = true};
  EXPECT_LT(plan_rounds(quick).rounds, plan_rounds({}).rounds);
  EXPECT_LT(plan_rounds(quick).budget, plan_rounds({}).budget);
  EXPECT_GE(plan_rounds(quick).rounds, 3);
}

TEST(PlanRounds, TheUserHasTheLastWord) {
  const MeasureOptions asked{.quick = true, .rounds = 77};
  EXPECT_EQ(plan_rounds(asked).rounds, 77);
  EXPECT_GE(plan_rounds(asked).budget, 1h);
}

TEST(MeasureInTurn, TakesTurnsAfterAWarmUp) {
  Record record;
  std::string order;
  measure_in_turn(
      record,
      [&] {
        order += 'o';
        return std::vector<double>{1};
      },
      [&] {
        order += 'p';
        return std::vector<double>{10};
      },
      {.rounds = 4, .budget = 1min});
  EXPECT_EQ(
      order,
      "op"
      "op"
      "po"
      "op"
      "po");
  EXPECT_EQ(record.ours.rounds.size(), 4u);
  EXPECT_EQ(record.peer.rounds.size(), 4u);
  EXPECT_DOUBLE_EQ(*record.ratio(), 10);
}

TEST(MeasureInTurn, GoesWithoutAPeer) {
  Record record;
  const Round ours = [] { return std::vector<double>{1}; };
  measure_in_turn(record, ours, nullptr, {.rounds = 2, .budget = 1min});
  measure_in_turn(
      record,
      ours,
      [] { return std::vector<double>(); },
      {.rounds = 2, .budget = 1min});
  EXPECT_EQ(record.ours.rounds.size(), 4u);
  EXPECT_TRUE(record.peer.rounds.empty());
}

TEST(MeasureInTurn, StopsAtTheBudgetButNotBeforeThreeRounds) {
  Record record;
  const Round slow = [] {
    std::this_thread::sleep_for(2ms);
    return std::vector<double>{1};
  };
  measure_in_turn(record, slow, nullptr, {.rounds = 1000, .budget = 1ms});
  EXPECT_EQ(record.ours.rounds.size(), 3u);
}

}  // namespace
}  // namespace trireme::bench
