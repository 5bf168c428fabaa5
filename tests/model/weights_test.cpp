#include "trireme/model/weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "small_models.h"
#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/gpt2.h"
#include "trireme/model/llama.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;

const ModelPlan kPlan = plan_gpt2(small_gpt2());

ckpt::NamedTensors all_weights(const ModelPlan& plan, uint64_t seed = 3) {
  return weights_to_save(build_layers(plan, {.seed = seed}), plan);
}

class Weights : public ::testing::Test {
 protected:
  ckpt::WeightFiles saved(const ckpt::NamedTensors& tensors) {
    ckpt::write_safetensors(folder_.path() / "model.safetensors", tensors);
    return ckpt::WeightFiles(folder_.path());
  }
  std::string refusal(const ckpt::NamedTensors& tensors) {
    const ckpt::WeightFiles files = saved(tensors);
    const auto layers = build_layers(kPlan, {.initialise = false});
    const std::string message =
        message_of<InvalidArgument>([&] { load_weights({layers}, kPlan, files); });
    for (const auto& [name, value] : pipe::parameters(layers))
      EXPECT_EQ(value.abs().sum().item<double>(), 0) << name << " was read before all";
    return message;
  }
  testing::ScratchFolder folder_;
};

TEST_F(Weights, ComeBackInEveryLayout) {
  for (const ModelPlan& plan : {kPlan, plan_llama(small_llama())}) {
    const auto files = saved(all_weights(plan));
    const auto wanted = build_layers(plan, {.seed = 3});
    for (int i = 0; i < 5; ++i) {
      const auto stage = build_stages(plan, {{i, i + 1}}, {.initialise = false});
      load_weights(stage, plan, files);
      const auto got = pipe::parameters(stage[0]);
      const auto right = pipe::parameters({wanted[static_cast<size_t>(i)]});
      ASSERT_EQ(got.size(), right.size());
      for (size_t p = 0; p < got.size(); ++p)
        EXPECT_TRUE(testing::same(got[p].second, right[p].second)) << got[p].first;
    }
  }
}

TEST_F(Weights, OfTiedOnesTheFirstNameIsSaved) {
  const auto stages = build_stages(kPlan, {{0, 2}, {2, 5}}, {});
  const auto count = [](const ckpt::NamedTensors& tensors, const char* name) {
    return std::count_if(tensors.begin(), tensors.end(), [&](const auto& each) {
      return each.first == name;
    });
  };
  EXPECT_EQ(count(weights_to_save(stages[0], kPlan), "transformer.wte.weight"), 1);
  EXPECT_EQ(count(weights_to_save(stages[1], kPlan), "lm_head.weight"), 0);
  EXPECT_EQ(count(weights_to_save(stages[1], kPlan), "transformer.ln_f.bias"), 1);
  const auto untied = plan_llama(small_llama());
  EXPECT_EQ(count(all_weights(untied), "lm_head.weight"), 1);
  for (const auto& [name, value] : all_weights(untied))
    EXPECT_FALSE(value.requires_grad()) << name;
}

TEST_F(Weights, NamesMayHaveNoPrefixAndOldBuffers) {
  ckpt::NamedTensors bare;
  for (const auto& [name, value] : all_weights(kPlan))
    bare.emplace_back(name.substr(std::string("transformer.").size()), value);
  bare.emplace_back("h.0.attn.bias", at::ones({1, 1, 32, 32}));
  bare.emplace_back("h.1.attn.masked_bias", at::ones({}));
  const auto layers = build_layers(kPlan, {.initialise = false});
  load_weights({layers}, kPlan, saved(bare));
  EXPECT_TRUE(testing::same(
      pipe::parameters(layers)[0].second,
      pipe::parameters(build_layers(kPlan, {.seed = 3}))[0].second));
}

TEST_F(Weights, ATiedOneMayBeThereUnderItsOtherName) {
  ckpt::NamedTensors tensors = all_weights(kPlan);
  tensors[0].first = "lm_head.weight";
  const auto layers = build_layers(kPlan, {.initialise = false});
  load_weights({layers}, kPlan, saved(tensors));
  EXPECT_TRUE(testing::same(pipe::parameters(layers)[0].second, tensors[0].second));
}

TEST_F(Weights, AreTurnedIntoTheModelsDtype) {
  ckpt::NamedTensors tensors = all_weights(kPlan);
  for (auto& [name, value] : tensors)
    value = value.to(at::kBFloat16);
  const auto layers = build_layers(kPlan, {.initialise = false});
  load_weights({layers}, kPlan, saved(tensors));
  EXPECT_TRUE(testing::same(
      pipe::parameters(layers)[0].second, tensors[0].second.to(at::kFloat)));
}

TEST_F(Weights, RefuseByNameBeforeAnyIsRead) {
  ckpt::NamedTensors missing = all_weights(kPlan);
  missing.erase(missing.begin() + 4);
  EXPECT_TRUE(
      contains(refusal(missing), text("\"", all_weights(kPlan)[4].first, "\"")));

  ckpt::NamedTensors shaped = all_weights(kPlan);
  shaped.back().second = at::zeros({3, 4});
  const std::string shape = refusal(shaped);
  EXPECT_TRUE(contains(shape, shaped.back().first));
  EXPECT_TRUE(contains(shape, "got [3, 4]"));

  ckpt::NamedTensors whole = all_weights(kPlan);
  whole.back().second = whole.back().second.to(at::kLong);
  EXPECT_TRUE(
      contains(refusal(whole), "in float32, bfloat16, float16 or float64, got Long"));

  ckpt::NamedTensors more = all_weights(kPlan);
  more.emplace_back("transformer.h.2.ln_1.bias", at::zeros({24}));
  EXPECT_TRUE(contains(refusal(more), "got others: transformer.h.2.ln_1.bias"));
}

}  // namespace
}  // namespace trireme::model
