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
      .measured = true,
      .message_bytes = 64,
      .links = {{.from = 0, .to = 1, .latency = 0.5}}};
  pipe::StepReport step{
      .schedule = choice.layout.schedule,
      .timelines = {
          {.actions =
               {{sched::Action(sched::ActionKind::Forward, 0, 0), 0, 3'000'000}}},
          {}}};
  step.measured = pipe::measure(step.schedule, step.timelines);
  const sched::Costs costs = costs_of(choice, step);
  ASSERT_EQ(costs.stages.size(), 2U);
  EXPECT_EQ(costs.stages[0].forward, 2);
  ASSERT_EQ(costs.links.size(), 1U);
  EXPECT_EQ(costs.links[0].latency, 0.5);
  EXPECT_EQ(costs.message_bytes, 64);
  // Where nothing was measured before, the step itself tells.
  choice.measured = false;
  const sched::Costs own = costs_of(choice, step);
  EXPECT_NEAR(own.stages[0].forward, 0.003, 1e-9);
  EXPECT_EQ(own.stages[1].forward, 0);
  EXPECT_EQ(own.stages[1].weight_bytes, costs.stages[1].weight_bytes);
}

}  // namespace
}  // namespace trireme::train
