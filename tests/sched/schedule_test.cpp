// Stages, their ranks and their neighbours.
#include "trireme/sched/schedule.h"

#include "helpers.h"

namespace trireme::sched {
namespace {

using Owners = std::vector<int>;

TEST(Schedule, MapsStagesInALoop) {
  EXPECT_EQ(map_stages(StageMap::Loop, 2, 2), (Owners{0, 1}));
  EXPECT_EQ(map_stages(StageMap::Loop, 2, 4), (Owners{0, 1, 0, 1}));
  EXPECT_EQ(map_stages(StageMap::Loop, 4, 8), (Owners{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(map_stages(StageMap::Loop, 2, 5), (Owners{0, 1, 0, 1, 0}));
}

TEST(Schedule, MapsStagesThereAndBack) {
  EXPECT_EQ(map_stages(StageMap::V, 2, 4), (Owners{0, 1, 1, 0}));
  EXPECT_EQ(
      map_stages(StageMap::V, 4, 12), (Owners{0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3}));
  EXPECT_EQ(map_stages(StageMap::V, 4, 16).back(), 0);
}

TEST(Schedule, RefusesStagesThatDoNotFit) {
  EXPECT_TRUE(contains(
      refusal([] { map_stages(StageMap::V, 2, 5); }),
      "a multiple of the number of ranks"));
  EXPECT_TRUE(contains(
      refusal([] { map_stages(StageMap::V, 2, 5); }), "the next that fits is 6"));
  EXPECT_TRUE(contains(refusal([] { map_stages(StageMap::Loop, 4, 3); }), "fits is 4"));
  EXPECT_TRUE(contains(refusal([] { map_stages(StageMap::Loop, 0, 3); }), "fits is 1"));
  EXPECT_TRUE(
      contains(refusal([] { map_stages(StageMap::Loop, -1, 3); }), "fits is 1"));
  EXPECT_TRUE(
      contains(refusal([] { map_stages(StageMap::Loop, 3, -7); }), "fits is 3"));
  EXPECT_TRUE(contains(
      refusal([] { map_stages(StageMap::V, 2000000000, 2000000001); }), "4000000000"));
}

TEST(Schedule, KnowsTheStagesOfARank) {
  EXPECT_EQ(stages_of({0, 1, 1, 0}, 0), (Owners{0, 3}));
  EXPECT_EQ(stages_of({0, 1, 1, 0}, 2), Owners{});
}

TEST(Schedule, CountsAllCells) {
  EXPECT_EQ(from_rows({"0F0,,0B0", "1F0,1B0"}).size(), 5);
}

TEST(StageGraph, HasTheNextStageAndExtraEdgesOnce) {
  Schedule schedule{.rank_of_stage = {0, 1, 2, 3}};
  schedule.extra_edges = {{0, 2}, {0, 2}, {1, 2}};
  const StageGraph graph(schedule);
  EXPECT_EQ(graph.after(0), (Owners{1, 2}));
  EXPECT_EQ(graph.before(2), (Owners{0, 1}));
  EXPECT_EQ(graph.before(0), Owners{});
  EXPECT_EQ(graph.after(3), Owners{});
}

TEST(StageGraph, RefusesEdgesThatGoNowhereOrBack) {
  for (const StageEdge& edge :
       {StageEdge{1, 0}, StageEdge{1, 1}, StageEdge{0, 2}, StageEdge{-1, 1}}) {
    Schedule schedule{.rank_of_stage = {0, 1}};
    schedule.extra_edges = {edge};
    EXPECT_TRUE(contains(refusal([&] { StageGraph graph(schedule); }), "extra edges"));
  }
}

}  // namespace
}  // namespace trireme::sched
