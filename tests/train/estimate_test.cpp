#include "trireme/train/estimate.h"

#include <gtest/gtest.h>

#include "trireme/train/model_source.h"
#include "trireme/train/schedule_choice.h"

namespace trireme::train {
namespace {

Config small() {
  Config config;
  config.model = {.dim = 64, .n_layers = 4, .n_heads = 4};
  config.training.global_batch_size = 8;
  config.parallelism.pipeline_parallel_schedule = "1F1B";
  return config;
}

struct Case {
  Config config;
  model::ModelPlan plan;
  std::vector<sched::LayerCosts> layers;
  Layout layout;
};

Case make_case(const Config& config, int pp) {
  Case made{.config = config, .plan = describe_model(config, 256).plan};
  const Degrees degrees{.pp = pp};
  const BatchShape batch = choose_batch(config, degrees);
  made.layers = estimate_layers(made.plan, config, batch);
  made.layout = first_layout(config, degrees, batch, made.layers);
  return made;
}

TEST(Estimate, BlocksCostAlikeAndMoreThanNorms) {
  const Case made = make_case(small(), 2);
  ASSERT_EQ(made.layers.size(), made.plan.layers.size());
  EXPECT_EQ(made.layers[1].costs.forward, made.layers[2].costs.forward);
  EXPECT_EQ(made.layers[1].costs.backward, 2 * made.layers[1].costs.forward);
  EXPECT_GT(made.layers[1].costs.forward, 10 * made.layers[5].costs.forward);
}

TEST(Estimate, RecomputeCostsTimeAndSavesMemory) {
  Config config = small();
  const Case kept = make_case(config, 2);
  config.activation_checkpoint.mode = "full";
  const Case again = make_case(config, 2);
  EXPECT_EQ(again.layers[1].costs.backward, 3 * again.layers[1].costs.forward);
  EXPECT_LT(
      again.layers[1].costs.activation_bytes,
      kept.layers[1].costs.activation_bytes / 4);
}

TEST(Estimate, MemoryAddsUp) {
  Config config = small();
  Case made = make_case(config, 2);
  const auto memory = estimate_memory(made.layout, made.layers, config);
  ASSERT_EQ(memory.size(), 2U);
  double weights = 0;
  for (const MemoryEstimate& one : memory) {
    weights += one.weights;
    EXPECT_EQ(one.gradients, one.weights);
    EXPECT_EQ(one.optimizer, 2 * one.weights);
    EXPECT_GT(one.activations, 0);
  }
  // The output layer is the embedding, which both ends have.
  EXPECT_EQ(
      weights, 4.0 * static_cast<double>(made.plan.count_parameters() + 256 * 64));
  config.training.mixed_precision_param = "bfloat16";
  made = make_case(config, 2);
  const auto half = estimate_memory(made.layout, made.layers, config);
  EXPECT_EQ(half[0].weights, memory[0].weights / 2);
  EXPECT_EQ(half[0].optimizer, 3 * memory[0].weights);
}

TEST(Estimate, BubbleIsThatOfTheSchedule) {
  Config config = small();
  config.training.global_batch_size = 16;
  config.parallelism.pipeline_parallel_microbatch_size = 1;
  const Case one = make_case(config, 1);
  EXPECT_EQ(predict_bubble(one.layout, one.layers), 0);
  const Case two = make_case(config, 2);
  // (p - 1) / (m + p - 1), and what uneven stages add.
  EXPECT_NEAR(predict_bubble(two.layout, two.layers), 1.0 / 17, 0.05);
}

}  // namespace
}  // namespace trireme::train
