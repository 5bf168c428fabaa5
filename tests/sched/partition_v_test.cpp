// Two runs a rank, from the outside to the inside.
#include "trireme/sched/partition_v.h"

#include "helpers.h"

namespace trireme::sched {
namespace {

TEST(PartitionV, GivesEachRankAFrontAndABack) {
  const std::vector<double> costs{1, 2, 3, 3, 2, 1}, speeds;
  const LayerTimes layers(costs, speeds);
  const auto cut = cut_there_and_back(layers, 2, 6);
  ASSERT_TRUE(cut);
  EXPECT_EQ(*cut, (std::vector<LayerRange>{{0, 2}, {2, 3}, {3, 4}, {4, 6}}));
  EXPECT_FALSE(cut_there_and_back(layers, 2, 5));
}

TEST(PartitionV, AShortBackCanBeTheOnlyWay) {
  // If rank 0 took two from the back, rank 1 would have 9 + 2; rank 2 has room for
  // the 9.
  const std::vector<double> costs{4, 2, 1, 9, 1, 5}, speeds;
  const LayerTimes layers(costs, speeds);
  const auto cut = cut_there_and_back(layers, 3, 10);
  ASSERT_TRUE(cut);
  EXPECT_EQ((*cut)[3], (LayerRange{3, 4}));
}

TEST(PartitionV, KnowsTimesAndSpeeds) {
  const std::vector<double> costs{1, 2, 4}, speeds{1, 2};
  const LayerTimes layers(costs, speeds);
  EXPECT_EQ(layers.count(), 3);
  EXPECT_EQ(layers.time({0, 3}, 1), 3.5);
  EXPECT_EQ(layers.time({0, 1}, {2, 3}, 1), 2.5);
}

}  // namespace
}  // namespace trireme::sched
