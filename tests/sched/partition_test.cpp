// Cuts of layers into stages, against all cuts there are.
#include "trireme/sched/partition.h"

#include <cmath>

#include "helpers.h"

namespace trireme::sched {
namespace {

/// The least bottleneck of all cuts into as many runs as there are owners.
double best_of_all(
    const std::vector<double>& costs,
    const std::vector<int>& owners,
    const std::vector<double>& speeds) {
  const int layers = static_cast<int>(costs.size());
  double best = std::numeric_limits<double>::infinity();
  std::vector<LayerRange> ranges;
  const auto cut = [&](auto&& self, int at) -> void {
    if (ranges.size() + 1 == owners.size()) {
      ranges.push_back({at, layers});
      best = std::min(best, bottleneck(ranges, costs, owners, speeds));
      ranges.pop_back();
      return;
    }
    const int left = static_cast<int>(owners.size() - ranges.size()) - 1;
    for (int end = at + 1; end + left <= layers; ++end) {
      ranges.push_back({at, end});
      self(self, end);
      ranges.pop_back();
    }
  };
  cut(cut, 0);
  return best;
}

void expect_exact(
    const std::vector<double>& costs,
    const std::vector<int>& owners,
    const std::vector<double>& speeds) {
  const auto ranges = partition(costs, owners, speeds);
  ASSERT_EQ(ranges.size(), owners.size());
  // bottleneck() refuses what is no cut.
  EXPECT_EQ(
      bottleneck(ranges, costs, owners, speeds), best_of_all(costs, owners, speeds));
}

std::vector<double> draw(std::mt19937& random, int count, int least, int most) {
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i)
    numbers.push_back(std::uniform_int_distribution(least, most)(random));
  return numbers;
}

TEST(Partition, TheExample) {
  EXPECT_EQ(partition({1, 1, 1, 3}, {0, 1}), (std::vector<LayerRange>{{0, 3}, {3, 4}}));
  EXPECT_EQ(partition({5}, {0}), (std::vector<LayerRange>{{0, 1}}));
  EXPECT_EQ(
      partition({0, 0, 0}, {0, 1, 2}),
      (std::vector<LayerRange>{{0, 1}, {1, 2}, {2, 3}}));
}

TEST(Partition, IsExactInOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const int stages = 1 + round % 5, layers = stages + round % 7;
    const auto owners = map_stages(StageMap::Loop, stages, stages);
    expect_exact(draw(random, layers, 0, 9), owners, {});
    // Powers of two, so that no rounding decides.
    std::vector<double> speeds;
    for (const double power : draw(random, stages, 0, 3))
      speeds.push_back(std::exp2(power));
    expect_exact(draw(random, layers, 0, 20), owners, speeds);
  }
}

TEST(Partition, ALightLayerIsLeftForASlowRank) {
  // If the first rank took all that it may, the slow one would get the heavy layer.
  expect_exact({1, 1, 20}, {0, 1, 2}, {4, 0.25, 4});
  EXPECT_EQ(
      bottleneck(
          partition({1, 1, 20}, {0, 1, 2}, {4, 0.25, 4}),
          {1, 1, 20},
          {0, 1, 2},
          {4, 0.25, 4}),
      5);
}

TEST(Partition, IsExactThereAndBack) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    const int ranks = 1 + round % 4, layers = 2 * ranks + round % 5;
    const auto owners = map_stages(StageMap::V, ranks, 2 * ranks);
    SCOPED_TRACE(text("round ", round));
    expect_exact(draw(random, layers, 0, round % 2 == 0 ? 9 : 30), owners, {});
    std::vector<double> speeds;
    for (const double power : draw(random, ranks, 0, 2))
      speeds.push_back(std::exp2(power));
    expect_exact(draw(random, layers, 1, 20), owners, speeds);
  }
}

TEST(Partition, IsExactForStagesInALoop) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round)
    expect_exact(
        draw(random, 6 + round % 3, 0, 9), map_stages(StageMap::Loop, 3, 6), {});
}

TEST(Partition, ManyLayersTakeNoTime) {
  std::mt19937 random(4);
  const auto costs = draw(random, 400, 1, 1000);
  for (const StageMap map : {StageMap::Loop, StageMap::V}) {
    const auto owners = map_stages(map, 16, 32);
    double total = 0;
    for (const double cost : costs)
      total += cost;
    const double ideal = total / (map == StageMap::V ? 16 : 32);
    EXPECT_LT(bottleneck(partition(costs, owners), costs, owners), ideal * 1.1);
  }
}

TEST(Partition, RefusesWhatCannotBeCut) {
  EXPECT_TRUE(contains(
      refusal([] {
        partition({1}, {0, 1});
      }),
      "at least one layer a stage, got 1 layers"));
  EXPECT_TRUE(contains(refusal([] { partition({}, {}); }), "at least one layer"));
  EXPECT_TRUE(contains(
      refusal([] {
        partition({1, -1}, {0, 1});
      }),
      "at least 0, got -1"));
  EXPECT_TRUE(contains(
      refusal([] {
        partition({1, std::nan("")}, {0, 1});
      }),
      "got nan"));
  EXPECT_TRUE(contains(
      refusal([] {
        partition({1, 1}, {0, 1}, {1});
      }),
      "the speeds of 2"));
  EXPECT_TRUE(contains(refusal([] { partition({1, 1}, {0, 1}, {1, 0}); }), "above 0"));
  EXPECT_TRUE(contains(
      refusal([] {
        partition({1, 1}, {0, -1});
      }),
      "at least 0, got -1"));
  EXPECT_TRUE(contains(
      refusal([] {
        bottleneck({{0, 1}, {1, 1}}, {1, 1}, {0, 1});
      }),
      "a run of layers"));
}

}  // namespace
}  // namespace trireme::sched
