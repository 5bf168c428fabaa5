#include "trireme/train/layout.h"

#include <functional>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::train {
namespace {

using testing::message_of;

std::vector<sched::LayerCosts> layers(int count) {
  std::vector<sched::LayerCosts> all;
  for (int i = 0; i < count; ++i)
    all.push_back({.name = text("layer", i), .costs = {}});
  return all;
}

TEST(Layout, CutsTheBatch) {
  Config config;
  config.training.global_batch_size = 48;
  BatchShape shape = choose_batch(config, {.pp = 2, .dp = 2});
  EXPECT_EQ(shape.microbatches, 8);
  EXPECT_EQ(shape.microbatch_size, 3);
  EXPECT_EQ(shape.passes, 1);
  config.training.local_batch_size = 12;
  config.parallelism.pipeline_parallel_microbatch_size = 2;
  shape = choose_batch(config, {.pp = 2, .dp = 2});
  EXPECT_EQ(shape.microbatches, 6);
  EXPECT_EQ(shape.passes, 2);
  EXPECT_EQ(shape.local_batch(), 12);
  // One rank has nobody to wait for.
  config = {};
  EXPECT_EQ(choose_batch(config, {}).microbatches, 1);
}

TEST(Layout, RefusesBatchesThatCannotBeCut) {
  Config config;
  config.training.global_batch_size = 9;
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        choose_batch(config, {.pp = 1, .dp = 2});
      }).find("a multiple of the 2 pipelines, got 9"),
      std::string::npos);
  config.training.local_batch_size = 2;
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        choose_batch(config, {});
      }).find("divide the 9 samples"),
      std::string::npos);
  config.training.local_batch_size = 0;
  config.parallelism.pipeline_parallel_microbatch_size = 2;
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        choose_batch(config, {});
      }).find("divide the 9 samples of"),
      std::string::npos);
}

TEST(Layout, CutsLayersIntoEvenStages) {
  const Layout layout = make_layout(
      {.pp = 2, .dp = 1}, {.microbatches = 4}, layers(8), "Interleaved1F1B", 2);
  EXPECT_EQ(layout.stages(), 4);
  EXPECT_EQ(
      layout.layers, (std::vector<sched::LayerRange>{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
  const auto costs = stage_costs(layout, layers(8));
  EXPECT_EQ(costs[0].forward, 2);
  EXPECT_EQ(costs[3].backward, 4);
}

TEST(Layout, RefusesSchedulesThatDoNotGo) {
  EXPECT_NE(
      message_of<InvalidArgument>([] {
        make_layout({.pp = 2}, {.microbatches = 4}, layers(3), "Interleaved1F1B", 2);
      }).find("at most 3 stages"),
      std::string::npos);
  const Layout other = make_layout({.pp = 2}, {.microbatches = 4}, layers(4), "1F1B");
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        make_layout({.pp = 4}, {.microbatches = 4}, layers(4), other.schedule);
      }).find("pipelines of 4 ranks"),
      std::string::npos);
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        make_layout({.pp = 2}, {.microbatches = 8}, layers(4), other.schedule);
      }).find("a schedule for 8 microbatches"),
      std::string::npos);
}

TEST(Layout, RefusesSchedulesThatTrainNothing) {
  EXPECT_NE(
      message_of<InvalidArgument>([] {
        make_layout({.pp = 2}, {.microbatches = 4}, layers(4), "ForwardOnly");
      }).find("trains nothing"),
      std::string::npos);
}

TEST(Layout, TellsWhoDoesWhat) {
  const auto all = layers(4);
  const std::string told = to_text(
      make_layout(
          {.pp = 2, .dp = 3}, {.microbatch_size = 2, .microbatches = 4}, all, "1F1B"),
      all);
  EXPECT_EQ(
      told,
      "6 ranks: 3 pipelines of 2, 4 microbatches of 2, 1F1B\n"
      "  pipeline rank 0: stage 0; layer0 … layer1\n"
      "  pipeline rank 1: stage 1; layer2 … layer3\n");
  const auto many = layers(64);
  const std::string ends =
      to_text(make_layout({.pp = 64}, {.microbatches = 64}, many, "1F1B"), many);
  EXPECT_NE(ends.find("… 48 more"), std::string::npos);
  EXPECT_NE(ends.find("pipeline rank 63"), std::string::npos);
}

}  // namespace
}  // namespace trireme::train
