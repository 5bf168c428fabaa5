#include <algorithm>
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
  EXPECT_EQ(slices_of_track[1], 0);  // of overlaps, which there are none of
  EXPECT_EQ(slices_of_track[2], 4);  // messages
  EXPECT_EQ(slices_of_track[3], 4);  // planned
  EXPECT_EQ(phases["C"], 3);
}

TEST(ReportTrace, HalvesOfAnOverlapAreSlicesOfTheirOwn) {
  for (const bool at_once : {true, false}) {
    StepReport report{.schedule = sched::parse_csv("0F0,1F0,1B0,0B0\n", "one")};
    ActionTime both{Action::overlap({0, 1}, {1, 0}), 1000, 9000};
    both.forward = {1000, 6000};
    both.backward = {at_once ? 2000 : 6000, 9000};
    report.timelines = {{.actions = {both}}};
    report.measured = measure(report.schedule, report.timelines);
    report.peak_bytes = {64};
    const auto root = nlohmann::json::parse(to_trace(report));
    EXPECT_EQ(root.at("otherData").at("peak_bytes"), nlohmann::json({64}));
    std::map<std::string, nlohmann::json> slices;
    std::vector<std::string> threads;
    for (const auto& event : root.at("traceEvents")) {
      if (event.at("ph") == "X")
        slices[event.at("name")] = event;
      if (event.at("name") == "thread_name")
        threads.push_back(event.at("args").at("name"));
    }
    ASSERT_EQ(slices.size(), 2U);
    EXPECT_EQ(slices["0F1"].at("ts"), 0.0);
    EXPECT_EQ(slices["0F1"].at("dur"), 5.0);
    EXPECT_EQ(slices["1B0"].at("ts"), at_once ? 1.0 : 5.0);
    EXPECT_EQ(slices["1B0"].at("cat"), "B");
    EXPECT_EQ(slices["0F1"].at("tid") != slices["1B0"].at("tid"), at_once);
    const bool named =
        std::find(threads.begin(), threads.end(), "rank 0, overlap") != threads.end();
    EXPECT_EQ(named, at_once);
  }
}

}  // namespace
}  // namespace trireme::pipe
