#include "trireme/model/build_stages.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "small_models.h"
#include "trireme/core/error.h"
#include "trireme/model/gpt2.h"
#include "trireme/model/llama.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;
using Stages = std::vector<sched::LayerRange>;

// Layers: embeddings, two blocks, norm, head.
const ModelPlan kPlan = plan_gpt2(small_gpt2());

std::map<std::string, at::Tensor> by_name(const std::vector<pipe::LayerList>& stages) {
  std::map<std::string, at::Tensor> all;
  for (const pipe::LayerList& stage : stages)
    for (const auto& [name, value] : pipe::parameters(stage))
      all.emplace(name, value);
  return all;
}

TEST(BuildStages, EveryLayoutBeginsWithTheSameWeights) {
  for (const ModelPlan& plan : {kPlan, plan_llama(small_llama())}) {
    const auto whole = by_name(build_stages(plan, {{0, 5}}, {.seed = 7}));
    // Each stage on a rank of its own.
    for (int i = 0; i < 5; ++i)
      for (const auto& [name, value] :
           by_name(build_stages(plan, {{i, i + 1}}, {.seed = 7}))) {
        const bool second = name == "lm_head.weight" && !plan.tied.empty();
        const auto& wanted = whole.at(second ? "transformer.wte.weight" : name);
        EXPECT_TRUE(testing::same(value, wanted)) << name;
      }
    EXPECT_FALSE(at::equal(
        by_name(build_stages(plan, {{1, 2}}, {.seed = 8})).rbegin()->second,
        whole.begin()->second));
  }
}

TEST(BuildStages, TiedParametersOfARankAreOneTensor) {
  const auto stages = build_stages(kPlan, {{3, 5}, {0, 2}}, {});
  const auto all = by_name(stages);
  EXPECT_TRUE(all.at("lm_head.weight").is_same(all.at("transformer.wte.weight")));
  EXPECT_EQ(
      pipe::find_tied({stages[1], stages[0]}), tied_places(kPlan, {{0, 2}, {3, 5}}));
}

TEST(BuildStages, TiedPlacesAreThoseOfDifferentStages) {
  const std::vector<pipe::Tied> two{
      {{{0, "transformer.wte.weight"}, {1, "lm_head.weight"}}}};
  EXPECT_EQ(tied_places(kPlan, {{0, 3}, {3, 5}}), two);
  EXPECT_TRUE(tied_places(kPlan, {{0, 5}}).empty());
  EXPECT_TRUE(tied_places(plan_llama(small_llama()), {{0, 3}, {3, 5}}).empty());
  EXPECT_EQ(
      pipe::to_text(tied_places(kPlan, {{0, 1}, {1, 4}, {4, 5}})[0]),
      "Tied{{0, \"transformer.wte.weight\"}, {2, \"lm_head.weight\"}}");
}

TEST(BuildStages, OptionsReachTheLayers) {
  const auto low = by_name(build_stages(kPlan, {{1, 2}}, {.dtype = at::kBFloat16}));
  for (const auto& [name, value] : low)
    EXPECT_EQ(value.scalar_type(), at::kBFloat16) << name;
  const auto zero = by_name(build_stages(kPlan, {{1, 2}}, {.initialise = false}));
  for (const auto& [name, value] : zero)
    EXPECT_EQ(value.abs().sum().item<double>(), 0) << name;
}

TEST(BuildStages, RefusesRangesThatCannotBe) {
  for (const Stages& ranges :
       {Stages{{0, 6}}, Stages{{-1, 2}}, Stages{{2, 2}}, Stages{{0, 3}, {2, 5}}})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { build_stages(kPlan, ranges, {}); }),
        "expected ranges of the 5 layers"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] {
        tied_places(kPlan, {{0, 3}});
      }),
      "the tied \"lm_head.weight\""));
}

TEST(BuildStages, RefusesOptionsThatCannotBe) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { build_layers(kPlan, {.dtype = at::kLong}); }),
      "a floating-point dtype"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { build_layers(kPlan, {.dropout = 1.0}); }),
      "a dropout in [0, 1), got 1"));
}

}  // namespace
}  // namespace trireme::model
