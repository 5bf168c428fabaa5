#include "trireme/train/load_decoders.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/model/registry.h"
#include "trireme/testing/world.h"

namespace trireme::train {
namespace {

// Embeddings, two blocks, norm and head.
model::ModelPlan small_model() {
  return model::plan_model(
      R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2,
          "vocab_size": 16, "n_positions": 16})");
}

std::vector<int64_t> sample(const comm::Group& world) {
  const model::ModelPlan plan = small_model();
  StageDecoders stages = load_decoders(world, plan, {});
  EXPECT_EQ(stages.decoders.size(), 1U);
  EXPECT_EQ(stages.rank_of_stage.size(), static_cast<size_t>(world.size()));
  return generate(
             world,
             stages,
             {1, 2, 3},
             {.max_new_tokens = 10, .temperature = 0},
             plan.max_positions)
      .new_ids;
}

TEST(LoadDecodersRanks, AllNumbersOfRanksGiveTheSameTokens) {
  std::vector<int64_t> alone;
  testing::run_world(testing::Backend::Local, 1, [&](const comm::Group& world) {
    alone = sample(world);
  });
  EXPECT_EQ(alone.size(), 10U);
  for (const int ranks : {2, 5})
    testing::run_world(testing::Backend::Local, ranks, [&](const comm::Group& world) {
      EXPECT_EQ(sample(world), alone);
    });
}

TEST(LoadDecodersRanks, RefusesMoreRanksThanLayers) {
  testing::run_world(testing::Backend::Local, 6, [&](const comm::Group& world) {
    EXPECT_THROW(load_decoders(world, small_model(), {}), InvalidArgument);
  });
}

TEST(LoadDecodersRanks, RefusesAFolderWithoutWeights) {
  testing::run_world(testing::Backend::Local, 1, [&](const comm::Group& world) {
    EXPECT_THROW(load_decoders(world, small_model(), "/nonexistent"), InvalidArgument);
  });
}

}  // namespace
}  // namespace trireme::train
