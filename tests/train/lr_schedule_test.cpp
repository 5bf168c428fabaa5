#include "trireme/train/lr_schedule.h"

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

LrSchedulerConfig make(const std::string& type, double ratio = 1, double least = 0) {
  return {
      .warmup_steps = 4,
      .decay_type = type,
      .decay_ratio = ratio,
      .min_lr_factor = least};
}

TEST(LrSchedule, WarmsUpInEqualSteps) {
  for (const char* type : {"cosine", "linear", "constant"}) {
    EXPECT_DOUBLE_EQ(lr_factor(make(type), 0, 20), 0.25);
    EXPECT_DOUBLE_EQ(lr_factor(make(type), 3, 20), 1);
  }
}

TEST(LrSchedule, FallsAsItsTypeSays) {
  EXPECT_DOUBLE_EQ(lr_factor(make("linear"), 12, 20), 0.5);
  EXPECT_DOUBLE_EQ(lr_factor(make("cosine"), 12, 20), 0.5);
  EXPECT_NEAR(lr_factor(make("cosine"), 8, 20), 0.853553390593, 1e-12);
  EXPECT_DOUBLE_EQ(lr_factor(make("constant"), 19, 20), 1);
}

TEST(LrSchedule, StaysAtTheLeast) {
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 1, 0.1), 20, 20), 0.1);
  EXPECT_DOUBLE_EQ(lr_factor(make("cosine", 1, 0.1), 30, 20), 0.1);
}

TEST(LrSchedule, FallsInTheLastPartOfAllStepsAsInTorchtitan) {
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0.5), 10, 20), 1);
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0.5), 15, 20), 0.5);
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0.5), 19, 20), 0.1);
  // Not before the warm-up ends.
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0.9), 4, 20), 1);
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0.9), 12, 20), 0.5);
  // Whole steps: a third of 20 are 7.
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 1.0 / 3), 13, 20), 1);
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 1.0 / 3), 19, 20), 1.0 / 7);
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0), 19, 20), 1);
}

TEST(LrSchedule, HasALengthOfItsOwn) {
  Config config;
  config.optimizer.lr = 2;
  config.training.steps = 40;
  config.lr_scheduler = make("linear", 1, 0.25);
  EXPECT_EQ(schedule_steps(config), 40);
  config.lr_scheduler.total_steps = 20;
  EXPECT_EQ(schedule_steps(config), 20);
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 30), 0.5) << "it stays where it has ended";
}

TEST(LrSchedule, WithoutWarmUpBeginsAtTheTop) {
  LrSchedulerConfig config = make("linear");
  config.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(lr_factor(config, 0, 10), 1);
  EXPECT_DOUBLE_EQ(lr_factor(config, 5, 10), 0.5);
}

}  // namespace
}  // namespace trireme::train
