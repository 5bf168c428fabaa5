// What a whole job prints is in trainer_test.cpp.
#include "trireme/train/training_report.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "trireme/testing/scratch_folder.h"

namespace trireme::train {
namespace {

TEST(TrainingReport, RoundsForPeople) {
  EXPECT_EQ(rounded(2.34567), "2.346");
  EXPECT_EQ(rounded(5), "5.000");
}

TEST(TrainingReport, CostsAreThoseOfTheChoice) {
  std::vector<sched::LayerCosts> layers(4);
  ScheduleChoice choice{
      .layout = make_layout({.pp = 2}, {.microbatches = 2}, layers, "1F1B"),
      .layers = layers,
      .link = {.latency = 0.5}};
  const sched::Costs costs = costs_of(choice);
  ASSERT_EQ(costs.stages.size(), 2U);
  EXPECT_EQ(costs.stages[0].forward, 2);
  EXPECT_EQ(costs.link.latency, 0.5);
}

}  // namespace
}  // namespace trireme::train
