#include "trireme/pipe/clock_offset.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "trireme/pipe/action_costs.h"
#include "trireme/pipe/report.h"
#include "trireme/sched/csv.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

constexpr int64_t kClockMs = 1000000;

TEST(ClockOffset, TheFastestTripDecides) {
  // Asked at 100 and answered at 120: the other clock said 1000 at about 110.
  const ClockOffset offset = find_offset(
      {{.asked_ns = 0, .other_ns = 5000, .answered_ns = 1000},
       {.asked_ns = 100, .other_ns = 1000, .answered_ns = 120}});
  EXPECT_EQ(offset.ns, 890);
  EXPECT_EQ(offset.error_ns, 10);
}

/// What the clock of each rank is ahead of the real one.
constexpr int64_t kAhead[] = {3000 * kClockMs, -7000 * kClockMs, 11 * kClockMs};

TEST(ClockOffsetRanks, IsFoundForRanksOfOtherHosts) {
  testing::run_world(testing::Backend::Local, 3, [](const comm::Group& world) {
    const int64_t ahead = kAhead[world.rank()];
    const std::vector<RankCores> hosts{{.host = 1}, {.host = 2}, {.host = 3}};
    const auto clock = [ahead] { return now_ns() + ahead; };
    // Twice: the channels of the first time are closed.
    for (int time = 0; time < 2; ++time) {
      const ClockOffset offset = measure_offset(world, hosts, clock);
      const int64_t real = kAhead[0] - ahead;
      EXPECT_LE(std::abs(offset.ns - real), offset.error_ns);
      EXPECT_EQ(offset.error_ns == 0, world.rank() == 0);
    }
  });
}

TEST(ClockOffsetRanks, RanksOfOneHostHaveOneClock) {
  testing::run_world(testing::Backend::Local, 3, [](const comm::Group& world) {
    const std::vector<RankCores> hosts{{.host = 5}, {.host = 5}, {.host = 5}};
    const ClockOffset offset = measure_offset(world, hosts, [&] {
      ADD_FAILURE() << "nobody has to ask";
      return int64_t{0};
    });
    EXPECT_EQ(offset.ns, 0);
    EXPECT_EQ(offset.error_ns, 0);
  });
}

/// A message that takes 1 ms from rank 0 to rank 1, and one that takes 2 ms back; the
/// clock of rank 1 is an hour behind.
StepReport two_host_report(const ClockOffset& second) {
  const int64_t t = 5000 * kClockMs;
  const int64_t u = t - 3'600'000 * kClockMs;
  StepReport report{
      .schedule = sched::parse_csv("0F0,0B0\n1F0,1B0\n", "two"),
      .timelines = {
          {.start_ns = t,
           .end_ns = t + 12 * kClockMs,
           .actions =
               {{Action(ActionKind::Forward, 0, 0), t, t + 2 * kClockMs},
                {Action(ActionKind::SendForward, 0, 0),
                 t + 2 * kClockMs,
                 t + 2 * kClockMs},
                {Action(ActionKind::Backward, 0, 0),
                 t + 9 * kClockMs,
                 t + 12 * kClockMs}}},
          shifted(
              {.start_ns = u,
               .end_ns = u + 7 * kClockMs,
               .actions =
                   {{Action(ActionKind::ReceiveForward, 1, 0), u, u + 3 * kClockMs},
                    {Action(ActionKind::Forward, 1, 0),
                     u + 3 * kClockMs,
                     u + 5 * kClockMs},
                    {Action(ActionKind::Backward, 1, 0),
                     u + 5 * kClockMs,
                     u + 7 * kClockMs}}},
              second)}};
  report.measured = measure(report.schedule, report.timelines);
  return report;
}

TEST(ClockOffset, AReportOfTwoHostsIsRight) {
  const StepReport report = two_host_report({.ns = 3'600'000 * kClockMs});
  EXPECT_NEAR(report.measured.makespan, 0.012, 1e-9);
  EXPECT_NEAR(report.measured.idle[1], 0.008, 1e-9);
  ActionCosts costs;
  costs.add(report);
  ASSERT_EQ(costs.links().size(), 2U);
  EXPECT_NEAR(costs.links()[0].latency, 0.001, 1e-9);
  // Without the offset, the step would seem to have taken an hour.
  EXPECT_GT(two_host_report({}).measured.makespan, 3000);
}

TEST(ClockOffset, ShiftsTheHalvesOfAnOverlapToo) {
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
