#include "trireme/model/model_plan.h"

#include <gtest/gtest.h>

#include "small_models.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/gpt2.h"
#include "trireme/model/llama.h"
#include "trireme/pipe/measure_layers.h"

namespace trireme::model {
namespace {

TEST(ModelPlan, CountsParametersAsPublished) {
  EXPECT_EQ(plan_gpt2({}).count_parameters(), 124'439'808);
  EXPECT_EQ(plan_llama({}).count_parameters(), 6'738'415'616);  // Llama 2, 7B
}

TEST(ModelPlan, TheLargestCostsNothing) {
  const ModelPlan plan = plan_llama(
      {.vocab_size = 128256,
       .hidden_size = 16384,
       .intermediate_size = 53248,
       .num_hidden_layers = 126,
       .num_attention_heads = 128,
       .num_key_value_heads = 8,
       .max_position_embeddings = 131072});
  EXPECT_EQ(plan.count_parameters(), 405'853'388'800);
  EXPECT_EQ(plan.layers.size(), 129U);
  double flops = 0;
  for (const LayerPlan& layer : plan.layers)
    flops += layer.forward_flops_per_token(8192);
  // Two a parameter but for the embeddings, and a little for attention.
  EXPECT_NEAR(flops / (2 * 403.75e9), 1, 0.06);
}

TEST(ModelPlan, ATiedParameterCountsOnce) {
  Gpt2Config config = small_gpt2();
  const int64_t tied = plan_gpt2(config).count_parameters();
  config.tie_word_embeddings = false;
  EXPECT_EQ(plan_gpt2(config).count_parameters(), tied + 61 * 24);
}

TEST(ModelPlan, ParameterNumel) {
  EXPECT_EQ((ParameterPlan{"a", {3, 4, 5}}).numel(), 60);
  EXPECT_EQ((ParameterPlan{"a", {}}).numel(), 1);
}

// What the plan says against what the pipeline measures.
void expect_memory(const ModelPlan& plan, const BuildOptions& options) {
  const int64_t n = 4, t = 32;
  const auto costs = pipe::measure_layers(
      build_layers(plan, options), {some_tokens(n, t)}, {.rounds = 1, .warmup = 0});
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    if (!layer.work.is_block)
      continue;
    const double planned = layer.kept_bytes_per_token(t, options) * n * t;
    const double measured = costs[i].costs.activation_bytes;
    EXPECT_NEAR(planned / measured, 1, 0.2)
        << plan.type << " " << layer.name << ": " << planned << " and " << measured;
  }
}

TEST(ModelPlan, KnowsWhatIsKept) {
  Gpt2Config gpt2 = small_gpt2();
  gpt2.n_embd = 96;
  gpt2.n_head = 4;
  LlamaConfig llama = small_llama();
  llama.hidden_size = 96;
  llama.intermediate_size = 256;
  expect_memory(plan_gpt2(gpt2), {});
  expect_memory(plan_llama(llama), {});
  const autograd::RandomScope scope(autograd::RandomContext{.seed = 1});
  expect_memory(plan_gpt2(gpt2), {.dropout = 0.1});
}

TEST(ModelPlan, ACheckpointKeepsTheInputOnly) {
  const LayerPlan block = plan_gpt2(small_gpt2()).layers[1];
  EXPECT_EQ(block.kept_bytes_per_token(100, {.checkpoint = true}), 24 * 4);
  EXPECT_EQ(
      block.kept_bytes_per_token(100, {.dtype = at::kBFloat16, .checkpoint = true}),
      24 * 2);
  // The head is no block, and the loss works on its logits in float32.
  const LayerPlan head = plan_gpt2(small_gpt2()).layers.back();
  EXPECT_EQ(head.kept_bytes_per_token(9, {.checkpoint = true}), 24 * 4 + 3 * 61 * 4);
  EXPECT_EQ(
      head.kept_bytes_per_token(9, {.dtype = at::kBFloat16}), 24 * 2 + 3 * 61 * 4);
}

TEST(ModelPlan, DroppedProbabilitiesAreKept) {
  Gpt2Config config = small_gpt2();
  config.attn_pdrop = 0.1;
  const LayerPlan block = plan_gpt2(config).layers[1];
  const double without = block.kept_bytes_per_token(100, {.dropout = 0});
  EXPECT_EQ(block.kept_bytes_per_token(100), without + 100 * 2 * 3 * 4);
  const LayerPlan other = plan_gpt2(small_gpt2()).layers[1];
  EXPECT_EQ(other.kept_bytes_per_token(100), without);
  EXPECT_EQ(
      other.kept_bytes_per_token(100, {.dropout = 0.5}), without + 100 * 2 * 3 * 4);
}

}  // namespace
}  // namespace trireme::model
