#include "trireme/pipe/action_costs.h"

#include <gtest/gtest.h>

#include "trireme/sched/csv.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

constexpr int64_t kMs = 1000000;

/// Rank 0: F of 2 ms that keeps 100 bytes, B of 3 ms. Rank 1 waits for a message that
/// takes 1 ms; both of its actions take 2 ms, times `factor`.
StepReport step(int64_t factor = 1) {
  const int64_t t = 5000 * kMs;
  StepReport report{
      .schedule = sched::parse_csv("0F0,0B0\n1F0,1B0\n", "two"),
      .timelines = {
          {.actions =
               {{Action(ActionKind::Forward, 0, 0), t, t + 2 * kMs, 130},
                {Action(ActionKind::SendForward, 0, 0), t + 2 * kMs, t + 2 * kMs, 100},
                {Action(ActionKind::Backward, 0, 0), t + 7 * kMs, t + 10 * kMs, 0}}},
          {.actions = {
               {Action(ActionKind::ReceiveForward, 1, 0), t, t + 3 * kMs},
               {Action(ActionKind::Forward, 1, 0),
                t + 3 * kMs,
                t + (3 + 2 * factor) * kMs},
               {Action(ActionKind::Backward, 1, 0),
                t + 5 * factor * kMs,
                t + 7 * factor * kMs}}}}};
  report.measured = measure(report.schedule, report.timelines);
  return report;
}

TEST(ActionCosts, TakesTheMediansOfSteps) {
  ActionCosts costs;
  for (const int64_t factor : {1, 9, 2})
    costs.add(step(factor));
  const sched::StageCosts first = costs.of_stage(0, 400), second = costs.of_stage(1, 0);
  EXPECT_NEAR(first.forward, 0.002, 1e-9);
  EXPECT_NEAR(first.backward, 0.003, 1e-9);
  EXPECT_EQ(first.activation_bytes, 100);
  EXPECT_EQ(first.weight_bytes, 400);
  EXPECT_NEAR(second.forward, 0.004, 1e-9);
  EXPECT_NEAR(second.backward, 0.004, 1e-9);
}

TEST(ActionCosts, WhatHasNotRunCostsNothing) {
  ActionCosts costs;
  EXPECT_EQ(costs.of_stage(0, 0).forward, 0);
  EXPECT_TRUE(costs.links().empty());
  costs.add(step());
  EXPECT_EQ(costs.of_stage(0, 0).input_grad, 0);
  EXPECT_EQ(costs.of_stage(7, 0).backward, 0);
}

TEST(ActionCosts, KnowsTheWayOfMessagesAndBack) {
  ActionCosts costs;
  costs.add(step());
  const auto links = costs.links();
  ASSERT_EQ(links.size(), 2U);
  for (const sched::Link& link : links) {
    EXPECT_EQ(link.from, 1 - link.to);
    EXPECT_NEAR(link.latency, 0.001, 1e-9);
  }
}

TEST(ActionCosts, HalvesOfAnOverlapCountAsTheirKinds) {
  ActionTime both{Action::overlap({0, 1}, {0, 0}), 0, 9 * kMs};
  both.forward = {1 * kMs, 3 * kMs};
  both.backward = {1 * kMs, 8 * kMs};
  StepReport report{
      .schedule = sched::parse_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", "one"),
      .timelines = {{.actions = {both}}}};
  report.measured = measure(report.schedule, report.timelines);
  ActionCosts costs;
  costs.add(report);
  EXPECT_NEAR(costs.of_stage(0, 0).forward, 0.002, 1e-9);
  EXPECT_NEAR(costs.of_stage(0, 0).backward, 0.007, 1e-9);
}

}  // namespace
}  // namespace trireme::pipe
