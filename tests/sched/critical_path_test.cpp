// What decides how long a schedule takes.
#include "helpers.h"
#include "trireme/sched/simulate.h"

namespace trireme::sched {
namespace {

TEST(CriticalPath, GoesThroughThePipelineAndBack) {
  const auto result = simulate(
      generate("1F1B", {.ranks = 2, .microbatches = 2}),
      {.costs = {}, .details = true});
  std::string path;
  for (const Timed& timed : result.critical_path)
    path += text(to_string(timed.action), " ");
  EXPECT_EQ(path, "0F0 1F0 1B0 1F1 1B1 0B1 ");
}

TEST(CriticalPath, IsAChainWithoutGapsWhereMessagesTakeNoTime) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const NamedSize what = random_size(random, 5, 3);
    SCOPED_TRACE(what.describe());
    const Schedule schedule = what.make();
    const Costs costs = any_costs(random, schedule.stages(), 6);
    const auto result = simulate(schedule, {.costs = costs, .details = true});
    const auto& path = result.critical_path;
    ASSERT_FALSE(path.empty());
    ASSERT_EQ(path.front().start, 0);
    ASSERT_EQ(path.back().end, result.makespan);
    for (size_t i = 1; i < path.size(); ++i)
      ASSERT_EQ(path[i].start, path[i - 1].end);
  }
}

TEST(CriticalPath, JumpsOverAMessage) {
  Costs costs;
  costs.link.latency = 5;
  const auto result = simulate(
      generate("GPipe", {.ranks = 3, .microbatches = 1}),
      {.costs = costs, .details = true});
  const auto& path = result.critical_path;
  ASSERT_EQ(path.size(), 6U);
  EXPECT_EQ(path[1].start - path[0].end, 5);
  EXPECT_EQ(path[3].start - path[2].end, 0);
}

// What arrives last decides, not what was made last.
TEST(CriticalPath, FollowsTheMessageThatCameLast) {
  Schedule schedule = from_rows({"0F0,0B0", "1F0,1B0", "2F0,2B0"});
  schedule.extra_edges = {{0, 2}};
  SimulateOptions options{.costs = {}, .details = true};
  options.costs.links = {{.from = 0, .to = 2, .latency = 10}};
  const Simulation result = simulate(schedule, options);
  // 2F0 waits for the slow message of 0F0 and not for 1F0, which ends later.
  std::vector<std::string> path;
  for (const Timed& timed : result.critical_path)
    path.push_back(to_string(timed.action));
  EXPECT_EQ(path, (std::vector<std::string>{"0F0", "2F0", "2B0", "1B0", "0B0"}));
  EXPECT_EQ(result.makespan, 1 + 10 + 1 + 2 + 2 + 2);
}

}  // namespace
}  // namespace trireme::sched
