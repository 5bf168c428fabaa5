#include "trireme/pipe/report.h"

#include <gtest/gtest.h>

#include "trireme/pipe/action_costs.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/lower.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

constexpr int64_t kMs = 1000000;

sched::Schedule schedule() {
  return sched::lower(
      sched::parse_csv("0F0,0B0\n1F0,1B0\n", "two"), {.sharding = false});
}

/// Rank 0 works 2 and 3 ms, rank 1 works 4 ms in the middle.
std::vector<Timeline> timelines() {
  const int64_t t = 5000 * kMs;
  return {
      {.actions =
           {{Action(ActionKind::Forward, 0, 0), t, t + 2 * kMs},
            {Action(ActionKind::SendForward, 0, 0), t + 2 * kMs, t + 2 * kMs},
            {Action(ActionKind::ReceiveBackward, 0, 0), t + 2 * kMs, t + 7 * kMs},
            {Action(ActionKind::Backward, 0, 0), t + 7 * kMs, t + 10 * kMs}}},
      {.actions = {
           {Action(ActionKind::ReceiveForward, 1, 0), t, t + 3 * kMs},
           {Action(ActionKind::Forward, 1, 0), t + 3 * kMs, t + 5 * kMs},
           {Action(ActionKind::Backward, 1, 0), t + 5 * kMs, t + 7 * kMs},
           {Action(ActionKind::SendBackward, 1, 0), t + 7 * kMs, t + 7 * kMs}}}};
}

TEST(Report, MeasuresBubblesFromComputationsOnly) {
  const sched::Simulation is = measure(schedule(), timelines());
  EXPECT_NEAR(is.makespan, 0.010, 1e-12);
  EXPECT_NEAR(is.ideal, 0.005, 1e-12);
  EXPECT_NEAR(is.wall_bubble, 0.005, 1e-12);
  EXPECT_NEAR(is.span_bubble, 0.005, 1e-12);
  EXPECT_NEAR(is.busy[1], 0.004, 1e-12);
  EXPECT_NEAR(is.idle[1], 0.006, 1e-12);
  EXPECT_EQ(is.peak_activations, (std::vector<int64_t>{1, 1}));
  ASSERT_EQ(is.timeline[1].size(), 2U);
  EXPECT_NEAR(is.timeline[1][0].start, 0.003, 1e-12);
}

TEST(Report, TextHasMeasuredAndPredictedSideBySide) {
  StepReport report{
      .schedule = schedule(), .timelines = timelines(), .peak_bytes = {100, 200}};
  report.measured = measure(report.schedule, report.timelines);
  EXPECT_EQ(
      to_text(report),
      "two               measured     predicted\n"
      "step              10.00 ms             -\n"
      "ideal              5.00 ms             -\n"
      "wall bubble        5.00 ms             -\n"
      "span bubble        5.00 ms             -\n"
      "bubble share        50.0 %             -\n"
      "                      busy          idle    peak bytes     predicted\n"
      "rank 0             5.00 ms       5.00 ms           100             -\n"
      "rank 1             4.00 ms       6.00 ms           200             -\n");
}

TEST(Report, PredictedPeaksAreActivationsAndGradientsAsTheMeasuredOnes) {
  StepReport report{
      .schedule = schedule(), .timelines = timelines(), .peak_bytes = {100, 200}};
  report.measured = measure(report.schedule, report.timelines);
  sched::Costs costs;
  costs.stages = {
      {.activation_bytes = 90, .weight_bytes = 1000},
      {.activation_bytes = 150, .weight_bytes = 5000}};
  report.predict(costs);
  EXPECT_EQ(report.predicted_peak_bytes, (std::vector<double>{1090, 5150}));
  const std::string table = to_text(report);
  EXPECT_NE(
      table.find(
          "rank 0             5.00 ms       5.00 ms           100          1090"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("           200          5150\n"), std::string::npos) << table;
  // Without backwards there are no gradients.
  report.schedule =
      sched::lower(sched::parse_csv("0F0\n1F0\n", "forward"), {.sharding = false});
  report.predict(costs);
  EXPECT_EQ(report.predicted_peak_bytes, (std::vector<double>{90, 150}));
}

/// An overlap from 1 to 9 ms whose forward takes 5 ms; the backward begins with it, or
/// after it.
std::vector<Timeline> overlapped(bool at_once) {
  ActionTime both{Action::overlap({0, 1}, {1, 0}), 1 * kMs, 9 * kMs};
  both.forward = {1 * kMs, 6 * kMs};
  both.backward = {at_once ? 2 * kMs : 6 * kMs, 9 * kMs};
  return {{.actions = {both}}};
}

TEST(Report, AnOverlapIsMeasuredOnceAndDrawnAsItsHalves) {
  for (const bool at_once : {true, false}) {
    const std::vector<Timeline> timelines = overlapped(at_once);
    EXPECT_EQ(timelines[0].actions[0].at_once(), at_once);
    StepReport report{.schedule = sched::parse_csv("0F0,1F0,1B0,0B0\n", "one")};
    report.measured = measure(report.schedule, timelines);
    EXPECT_NEAR(report.measured.busy[0], 0.008, 1e-12);
    ASSERT_EQ(report.measured.timeline[0].size(), 2U);
    EXPECT_EQ(report.measured.timeline[0][0].action, Action(ActionKind::Forward, 0, 1));
    EXPECT_NEAR(report.measured.timeline[0][0].end, 0.005, 1e-12);
    EXPECT_EQ(
        report.measured.timeline[0][1].action, Action(ActionKind::Backward, 1, 0));
    EXPECT_NEAR(report.measured.timeline[0][1].start, at_once ? 0.001 : 0.005, 1e-12);
    const std::string svg = to_svg(report);
    EXPECT_NE(svg.find("<title>0F1 from"), std::string::npos);
    EXPECT_NE(svg.find("<title>1B0 from"), std::string::npos);
    // Boxes of half the height, one below the other.
    EXPECT_EQ(svg.find("height=\"11.00\"") != std::string::npos, at_once);
  }
}

TEST(ReportRanks, RecordsReachEveryRank) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    const auto mine = timelines()[static_cast<size_t>(world.rank())];
    const auto all =
        gather_records(world, {.timeline = mine, .peak_bytes = 10 + world.rank()});
    ASSERT_EQ(all.size(), 2U);
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(all[rank].peak_bytes, 10 + static_cast<int64_t>(rank));
      const auto wanted = timelines()[rank];
      ASSERT_EQ(all[rank].timeline.actions.size(), wanted.actions.size());
      for (size_t i = 0; i < wanted.actions.size(); ++i) {
        EXPECT_EQ(all[rank].timeline.actions[i].action, wanted.actions[i].action);
        EXPECT_EQ(all[rank].timeline.actions[i].end_ns, wanted.actions[i].end_ns);
      }
    }
  });
}

TEST(ReportRanks, AnOverlapKeepsItsHalves) {
  testing::run_world(testing::Backend::Local, 1, [](const comm::Group& world) {
    const Action both = Action::overlap({0, 7}, {3, 2});
    const auto all = gather_records(
        world, {.timeline = {.actions = {{both, 1, 2, 3, {4, 5}, {6, 7}}}}});
    EXPECT_EQ(all[0].timeline.actions[0].action, both);
    EXPECT_EQ(all[0].timeline.actions[0].forward, (Interval{4, 5}));
    EXPECT_EQ(all[0].timeline.actions[0].backward, (Interval{6, 7}));
    EXPECT_EQ(all[0].timeline.actions[0].live_bytes, 3);
  });
}

/// A message that takes 1 ms from rank 0 to rank 1, and one that takes 2 ms back; the
/// clock of rank 1 is an hour behind.
StepReport two_host_report(const comm::ClockOffset& second) {
  const int64_t t = 5000 * kMs;
  const int64_t u = t - 3'600'000 * kMs;
  StepReport report{
      .schedule = sched::parse_csv("0F0,0B0\n1F0,1B0\n", "two"),
      .timelines = {
          {.start_ns = t,
           .end_ns = t + 12 * kMs,
           .actions =
               {{Action(ActionKind::Forward, 0, 0), t, t + 2 * kMs},
                {Action(ActionKind::SendForward, 0, 0), t + 2 * kMs, t + 2 * kMs},
                {Action(ActionKind::Backward, 0, 0), t + 9 * kMs, t + 12 * kMs}}},
          shifted(
              {.start_ns = u,
               .end_ns = u + 7 * kMs,
               .actions =
                   {{Action(ActionKind::ReceiveForward, 1, 0), u, u + 3 * kMs},
                    {Action(ActionKind::Forward, 1, 0), u + 3 * kMs, u + 5 * kMs},
                    {Action(ActionKind::Backward, 1, 0), u + 5 * kMs, u + 7 * kMs}}},
              second)}};
  report.measured = measure(report.schedule, report.timelines);
  return report;
}

TEST(StepReport, AReportOfTwoHostsIsRight) {
  const StepReport report = two_host_report({.ns = 3'600'000 * kMs});
  EXPECT_NEAR(report.measured.makespan, 0.012, 1e-9);
  EXPECT_NEAR(report.measured.idle[1], 0.008, 1e-9);
  ActionCosts costs;
  costs.add(report);
  ASSERT_EQ(costs.links().size(), 2U);
  EXPECT_NEAR(costs.links()[0].latency, 0.001, 1e-9);
  // Without the offset, the step would seem to have taken an hour.
  EXPECT_GT(two_host_report({}).measured.makespan, 3000);
}

TEST(StepReport, ShiftsTheHalvesOfAnOverlapToo) {
  ActionTime one{Action::overlap({0, 1}, {1, 0}), 10, 20};
  one.forward = {10, 15};
  one.backward = {11, 20};
  const ActionTime plain{Action(ActionKind::Forward, 0, 0), 1, 2};
  const Timeline moved =
      shifted({.start_ns = 1, .end_ns = 20, .actions = {plain, one}}, {.ns = 100});
  EXPECT_EQ(moved.start_ns, 101);
  EXPECT_EQ(moved.end_ns, 120);
  EXPECT_EQ(moved.actions[1].forward, (Interval{110, 115}));
  EXPECT_EQ(moved.actions[1].backward, (Interval{111, 120}));
  // What is not known stays so.
  EXPECT_FALSE(moved.actions[0].has_halves());
}

}  // namespace
}  // namespace trireme::pipe
