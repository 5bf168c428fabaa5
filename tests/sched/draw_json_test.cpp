// The files for other programs.
#include <map>

#include <nlohmann/json.hpp>

#include "helpers.h"
#include "trireme/sched/draw.h"
#include "trireme/sched/lower.h"

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

// Every message leaves its sender's track and comes to its receiver's.
TEST(DrawJson, ATraceOfALoweredScheduleHasItsMessages) {
  const Schedule schedule =
      lower(generate("Interleaved1F1B", {.ranks = 2, .microbatches = 4}));
  SimulateOptions options{.costs = {}, .details = true};
  options.costs.link.latency = 0.5;
  const Json trace = Json::parse(to_trace(schedule, simulate(schedule, options)));
  std::map<std::pair<int, std::string>, double> times;
  int names = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "i") {
      EXPECT_EQ(event.at("tid"), 1);
      EXPECT_TRUE(
          times.emplace(std::pair(event.at("pid"), event.at("name")), event.at("ts"))
              .second);
    }
    names += event.at("name") == "thread_name" ? 1 : 0;
  }
  EXPECT_EQ(names, 4);
  size_t messages = 0;
  for (size_t rank = 0; rank < 2; ++rank)
    for (const Action& action : schedule.actions[rank])
      if (is_send(action.kind()) || is_receive(action.kind())) {
        ++messages;
        EXPECT_TRUE(times.contains({int(rank), to_string(action)}))
            << to_string(action);
      }
  EXPECT_EQ(times.size(), messages);
  EXPECT_EQ(times.at({0, "0SEND_F0"}), 1);
  EXPECT_EQ(times.at({1, "1RECV_F0"}), 1.5);
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
