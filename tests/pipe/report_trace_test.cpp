#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/pipe/report.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/lower.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

StepReport make_report() {
  StepReport report{
      .schedule = sched::lower(
          sched::parse_csv("0F0,0B0\n1F0,1B0\n", "two"), {.sharding = false})};
  report.timelines = {
      {.actions =
           {{Action(ActionKind::Forward, 0, 0), 1000, 3000, 64},
            {Action(ActionKind::SendForward, 0, 0), 3000, 3100, 32},
            {Action(ActionKind::ReceiveBackward, 0, 0), 3100, 7000, 32},
            {Action(ActionKind::Backward, 0, 0), 7000, 9000, 0}}},
      {.actions = {
           {Action(ActionKind::ReceiveForward, 1, 0), 1000, 3200, 0},
           {Action(ActionKind::Forward, 1, 0), 3200, 5000, 0},
           {Action(ActionKind::Backward, 1, 0), 5000, 6800, 0},
           {Action(ActionKind::SendBackward, 1, 0), 6800, 6900, 0}}}};
  report.measured = measure(report.schedule, report.timelines);
  report.predicted = sched::simulate(report.schedule, {.costs = {}, .details = true});
  return report;
}

TEST(ReportTrace, HasTracksArrowsAndBytes) {
  const auto root = nlohmann::json::parse(to_trace(make_report()));
  std::map<std::string, int> phases;
  std::map<std::string, std::vector<std::string>> ids;
  std::map<int, int> slices_of_track;
  for (const auto& event : root.at("traceEvents")) {
    const std::string phase = event.at("ph");
    ++phases[phase];
    if (phase == "s" || phase == "f")
      ids[phase].push_back(event.at("id"));
    if (phase == "X") {
      ++slices_of_track[event.at("tid").get<int>()];
      EXPECT_GE(event.at("dur").get<double>(), 0);
      EXPECT_GE(event.at("ts").get<double>(), 0);
    }
  }
  EXPECT_EQ(ids["s"], (std::vector<std::string>{"f0.1.0", "b1.0.0"}));
  std::sort(ids["f"].begin(), ids["f"].end());
  EXPECT_EQ(ids["f"], (std::vector<std::string>{"b1.0.0", "f0.1.0"}));
  EXPECT_EQ(slices_of_track[0], 4);  // measured
  EXPECT_EQ(slices_of_track[1], 4);  // messages
  EXPECT_EQ(slices_of_track[2], 4);  // planned
  EXPECT_EQ(phases["C"], 3);
}

}  // namespace
}  // namespace trireme::pipe
