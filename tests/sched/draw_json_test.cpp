// The files for other programs.
#include <map>

#include <nlohmann/json.hpp>

#include "helpers.h"
#include "trireme/sched/draw.h"

namespace trireme::sched {
namespace {

using Json = nlohmann::json;

TEST(DrawJson, ATraceHasEveryComputationAndMatchedArrows) {
  for (const ScheduleInfo& info : all_schedules()) {
    const Schedule schedule = generate(info.name, {.ranks = 3, .microbatches = 6});
    const auto simulation = simulate(schedule, {.costs = {}, .details = true});
    const Json trace = Json::parse(to_trace(schedule, simulation));
    std::map<std::string, int> computed;
    std::map<std::string, std::pair<double, double>> arrows;  // sent, received
    int ranks = 0;
    for (const Json& event : trace.at("traceEvents")) {
      const std::string kind = event.at("ph");
      if (kind == "X") {
        ++computed[event.at("name")];
        EXPECT_GT(event.at("dur").get<double>(), 0);
      } else if (kind == "s") {
        EXPECT_TRUE(
            arrows
                .emplace(event.at("id"), std::pair(event.at("ts").get<double>(), -1.0))
                .second);
      } else if (kind == "M") {
        ++ranks;
      }
    }
    for (const Json& event : trace.at("traceEvents"))
      if (event.at("ph") == "f")
        arrows.at(event.at("id")).second = event.at("ts");
    EXPECT_EQ(ranks, 3);
    size_t actions = 0;
    for (const auto& list : schedule.actions)
      for (const Action& action : list)
        if (action.kind() != ActionKind::Bubble) {
          ++actions;
          EXPECT_EQ(computed[to_string(action)], 1) << info.name;
        }
    EXPECT_EQ(computed.size(), actions);
    EXPECT_FALSE(arrows.empty());
    for (const auto& [id, times] : arrows)
      EXPECT_LE(times.first, times.second) << info.name << " " << id;
  }
}

TEST(DrawJson, TheScheduleItself) {
  const Schedule schedule = from_rows({"0F0,,0B0", "1F0,1B0"});
  const Json json = Json::parse(to_json(schedule));
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("stages"), 2);
  EXPECT_EQ(json.at("microbatches"), 1);
  EXPECT_EQ(json.at("lowered"), false);
  EXPECT_EQ(json.at("rank_of_stage"), Json({0, 1}));
  EXPECT_EQ(json.at("actions"), Json({{"0F0", "", "0B0"}, {"1F0", "1B0"}}));
}

}  // namespace
}  // namespace trireme::sched
