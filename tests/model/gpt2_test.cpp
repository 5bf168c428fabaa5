#include "trireme/model/gpt2.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backward_ways.h"
#include "small_models.h"
#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"

namespace trireme::model {
namespace {

TEST(Gpt2, NamesAndShapesAreHuggingFaces) {
  std::vector<std::string> wanted{
      "transformer.wte.weight 61 24", "transformer.wpe.weight 32 24"};
  for (const char* h : {"0", "1"}) {
    const std::string block = text("transformer.h.", h);
    for (const char* name :
         {".ln_1.weight 24",
          ".ln_1.bias 24",
          ".attn.c_attn.weight 24 72",
          ".attn.c_attn.bias 72",
          ".attn.c_proj.weight 24 24",
          ".attn.c_proj.bias 24",
          ".ln_2.weight 24",
          ".ln_2.bias 24",
          ".mlp.c_fc.weight 24 96",
          ".mlp.c_fc.bias 96",
          ".mlp.c_proj.weight 96 24",
          ".mlp.c_proj.bias 24"})
      wanted.push_back(text(block, name));
  }
  for (const char* name :
       {"transformer.ln_f.weight 24",
        "transformer.ln_f.bias 24",
        "lm_head.weight 61 24"})
    wanted.emplace_back(name);
  const ModelPlan plan = plan_gpt2(small_gpt2());
  EXPECT_EQ(outline(plan), wanted);
  EXPECT_EQ(
      plan.tied,
      (std::vector<std::vector<std::string>>{
          {"transformer.wte.weight", "lm_head.weight"}}));
}

TEST(Gpt2, LayersHaveThePlansParameters) {
  const ModelPlan plan = plan_gpt2(small_gpt2());
  const pipe::LayerList layers = build_layers(plan, {});
  ASSERT_EQ(layers.size(), plan.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(layers[i].name, plan.layers[i].name);
    EXPECT_EQ(pipe::count_parameters(layers[i]), plan.layers[i].count_parameters());
  }
}

TEST(Gpt2, GivesLogits) {
  const pipe::LayerList layers = build_layers(plan_gpt2(small_gpt2()), {});
  const at::Tensor logits = pipe::run_layers(layers, {some_tokens(3, 7)}).at(0);
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({3, 7, 61}));
  // An untrained model knows nothing.
  EXPECT_NEAR(loss_of(logits, some_tokens(3, 7, 2)).item<double>(), std::log(61), 0.2);
}

TEST(Gpt2, ResidualProjectionsBeginSmaller) {
  Gpt2Config config = small_gpt2();
  config.n_embd = 240;
  config.n_layer = 8;
  const auto stage = build_stages(plan_gpt2(config), {{1, 2}}, {})[0];
  for (const auto& [name, value] : pipe::parameters(stage)) {
    if (value.dim() < 2)
      continue;
    const double wanted = name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02;
    EXPECT_NEAR(value.std().item<double>() / wanted, 1, 0.02) << name;
  }
}

TEST(Gpt2, BackwardSplitsExactlyAlsoWithCheckpoints) {
  expect_ways_agree(plan_gpt2(small_gpt2()), at::kFloat);
  expect_ways_agree(plan_gpt2(small_gpt2()), at::kBFloat16);
}

TEST(Gpt2, BackwardSplitsExactlyWithDropout) {
  Gpt2Config config = small_gpt2();
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.2;
  expect_ways_agree(plan_gpt2(config), at::kFloat);
}

TEST(Gpt2, OptionsReplaceTheConfigsDropout) {
  Gpt2Config config = small_gpt2();
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.2;
  const pipe::LayerList without = build_layers(plan_gpt2(config), {.dropout = 0});
  pipe::run_layers(without, {some_tokens(1, 4)});  // needs no random context
  const pipe::LayerList with = build_layers(plan_gpt2(small_gpt2()), {.dropout = 0.5});
  EXPECT_THROW(pipe::run_layers(with, {some_tokens(1, 4)}), InvalidArgument);
}

TEST(Gpt2, HalfPrecisionIsNear) {
  expect_half_is_near(plan_gpt2(small_gpt2()));
}

TEST(Gpt2, RefusesWhatItCannotRun) {
  const pipe::LayerList layers = build_layers(plan_gpt2(small_gpt2()), {});
  EXPECT_THROW(pipe::run_layers(layers, {some_tokens(1, 33)}), InvalidArgument);
  EXPECT_THROW(pipe::run_layers(layers, {some_tokens(1, 3) + 61}), InvalidArgument);
  EXPECT_THROW(pipe::run_layers(layers, {at::ones({1, 3})}), InvalidArgument);
  EXPECT_THROW(plan_gpt2({.n_embd = 10, .n_head = 4}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::model
