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

TEST(LrSchedule, FallsInTheLastPartOnly) {
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0.5), 12, 20), 1);
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0.5), 16, 20), 0.5);
  EXPECT_DOUBLE_EQ(lr_factor(make("linear", 0), 19, 20), 1);
}

TEST(LrSchedule, WithoutWarmUpBeginsAtTheTop) {
  LrSchedulerConfig config = make("linear");
  config.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(lr_factor(config, 0, 10), 1);
  EXPECT_DOUBLE_EQ(lr_factor(config, 5, 10), 0.5);
}

}  // namespace
}  // namespace trireme::train
