#include "trireme/model/llama.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backward_ways.h"
#include "small_models.h"
#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"

namespace trireme::model {
namespace {

TEST(Llama, NamesAndShapesAreHuggingFaces) {
  std::vector<std::string> wanted{"model.embed_tokens.weight 61 24"};
  for (const char* i : {"0", "1"}) {
    const std::string block = text("model.layers.", i);
    for (const char* name :
         {".self_attn.q_proj.weight 24 24",
          ".self_attn.k_proj.weight 8 24",
          ".self_attn.v_proj.weight 8 24",
          ".self_attn.o_proj.weight 24 24",
          ".mlp.gate_proj.weight 40 24",
          ".mlp.up_proj.weight 40 24",
          ".mlp.down_proj.weight 24 40",
          ".input_layernorm.weight 24",
          ".post_attention_layernorm.weight 24"})
      wanted.push_back(text(block, name));
  }
  wanted.emplace_back("model.norm.weight 24");
  wanted.emplace_back("lm_head.weight 61 24");
  const ModelPlan plan = plan_llama(small_llama());
  EXPECT_EQ(outline(plan), wanted);
  EXPECT_TRUE(plan.tied.empty());
}

TEST(Llama, BiasesAreThereWhenAskedFor) {
  LlamaConfig config = small_llama();
  config.attention_bias = config.mlp_bias = true;
  config.head_dim = 6;
  const auto names = outline(plan_llama(config));
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias 36",
        "model.layers.0.self_attn.k_proj.bias 12",
        "model.layers.1.self_attn.o_proj.bias 24",
        "model.layers.1.mlp.gate_proj.bias 40",
        "model.layers.1.mlp.down_proj.bias 24"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

TEST(Llama, LayersHaveThePlansParameters) {
  LlamaConfig config = small_llama();
  config.attention_bias = config.tie_word_embeddings = true;
  const ModelPlan plan = plan_llama(config);
  const pipe::LayerList layers = build_layers(plan, {});
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(layers[i].name, plan.layers[i].name);
    EXPECT_EQ(pipe::count_parameters(layers[i]), plan.layers[i].count_parameters());
  }
}

TEST(Llama, GivesLogits) {
  const pipe::LayerList layers = build_layers(plan_llama(small_llama()), {});
  const at::Tensor logits = pipe::run_layers(layers, {some_tokens(3, 7)}).at(0);
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({3, 7, 61}));
  EXPECT_NEAR(loss_of(logits, some_tokens(3, 7, 2)).item<double>(), std::log(61), 0.2);
}

TEST(Llama, BackwardSplitsExactlyAlsoWithCheckpoints) {
  LlamaConfig config = small_llama();
  expect_ways_agree(plan_llama(config), at::kFloat);
  expect_ways_agree(plan_llama(config), at::kBFloat16);
  config.attention_bias = config.mlp_bias = config.tie_word_embeddings = true;
  expect_ways_agree(plan_llama(config), at::kFloat);
}

TEST(Llama, BackwardSplitsExactlyWithDropout) {
  LlamaConfig config = small_llama();
  config.attention_dropout = 0.2;
  expect_ways_agree(plan_llama(config), at::kFloat);
}

TEST(Llama, HalfPrecisionIsNear) {
  expect_half_is_near(plan_llama(small_llama()));
}

TEST(Llama, RefusesWhatItCannotRun) {
  const pipe::LayerList layers = build_layers(plan_llama(small_llama()), {});
  EXPECT_THROW(pipe::run_layers(layers, {some_tokens(1, 3) - 61}), InvalidArgument);
  EXPECT_THROW(pipe::run_layers(layers, {at::ones({1, 3})}), InvalidArgument);
  EXPECT_THROW(plan_llama({.hidden_size = 10}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::model
