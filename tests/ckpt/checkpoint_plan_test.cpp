#include "trireme/ckpt/checkpoint_plan.h"

#include "helpers.h"

namespace trireme::ckpt {
namespace {

TensorEntry tensor(const std::string& name, int64_t size = 2) {
  return {.name = name, .sizes = {size}, .end = static_cast<uint64_t>(size) * 4};
}

RankOutline rank_of(int stages, std::vector<StageOutline> parts, int64_t step = 5) {
  return {.step = step, .stages = stages, .parts = std::move(parts)};
}

TEST(CheckpointPlan, OneStageHasOneFileWithoutIndex) {
  const auto plan = plan_checkpoint({rank_of(
      1, {{.stage = 0, .weights = {tensor("a")}, .optimizer = {tensor("m")}}})});
  EXPECT_EQ(plan.weights.files, (std::vector<std::string>{"model.safetensors"}));
  EXPECT_EQ(plan.optimizer.files, (std::vector<std::string>{"optimizer.safetensors"}));
  EXPECT_FALSE(plan.weights.has_index());
  EXPECT_TRUE(plan.weights.writes(0, "a"));
  EXPECT_FALSE(plan.weights.writes(0, "m"));
}

TEST(CheckpointPlan, ATiedParameterBelongsToTheFirstOfItsStages) {
  // Whichever rank brings which stage.
  const auto plan = plan_checkpoint(
      {rank_of(3, {{.stage = 2, .weights = {tensor("wte"), tensor("c")}}}),
       rank_of(
           3,
           {{.stage = 1, .weights = {tensor("b")}},
            {.stage = 0, .weights = {tensor("wte"), tensor("a", 8)}}}),
       rank_of(3, {})});
  EXPECT_EQ(
      plan.weights.files,
      (std::vector<std::string>{
          "model-00001-of-00003.safetensors",
          "model-00002-of-00003.safetensors",
          "model-00003-of-00003.safetensors"}));
  EXPECT_TRUE(plan.weights.has_index());
  EXPECT_TRUE(plan.weights.writes(0, "wte"));
  EXPECT_FALSE(plan.weights.writes(2, "wte"));
  EXPECT_TRUE(plan.weights.writes(2, "c"));
  EXPECT_EQ(plan.weights.index.total_bytes, 8U + 8 + 8 + 32);
  EXPECT_EQ(plan.weights.index.files.at("wte"), plan.weights.files[0]);
  EXPECT_TRUE(plan.optimizer.files.empty());
  EXPECT_FALSE(plan.optimizer.has_index());
}

TEST(CheckpointPlan, RefusesRanksThatDoNotGoTogether) {
  const auto refused = [](std::vector<RankOutline> ranks) {
    return refusal([&] { plan_checkpoint(ranks); });
  };
  const StageOutline first{.stage = 0, .weights = {tensor("a")}};
  const StageOutline second{.stage = 1, .weights = {tensor("b")}};
  expect_part(refused({rank_of(0, {})}), "1 to 99999 stages, got 0");
  expect_part(refused({rank_of(2, {first})}), "stage 1 from one rank, got none");
  expect_part(
      refused({rank_of(2, {first}), rank_of(2, {first, second})}),
      "got stage 0 again on rank 1");
  expect_part(refused({rank_of(1, {second})}), "got stage 1 on rank 0");
  expect_part(
      refused({rank_of(2, {first}), rank_of(3, {second})}),
      "step 5 of 2 stages, as on rank 0, got step 5 of 3 on rank 1");
  expect_part(
      refused({rank_of(2, {first}), rank_of(2, {second}, 6)}), "got step 6 of 2");
  expect_part(
      refused({rank_of(2, {first, {.stage = 1, .weights = {tensor("a", 3)}}})}),
      "\"a\" alike in all stages: Float [2], got Float [3] in stage 1");
  expect_part(
      refused({rank_of(1, {{.stage = 0, .weights = {tensor("a"), tensor("a")}}})}),
      "\"a\" twice");
}

TEST(CheckpointPlan, OutlinesTravelAsText) {
  const RankOutline outline = rank_of(
      4,
      {{.stage = 3, .weights = {tensor("a\"\u00fc"), tensor("b", 0)}},
       {.stage = 1, .optimizer = {tensor("m")}}});
  const RankOutline back = parse_outline(write_outline(outline));
  EXPECT_EQ(back.step, 5);
  EXPECT_EQ(back.stages, 4);
  ASSERT_EQ(back.parts.size(), 2U);
  EXPECT_EQ(back.parts[0].stage, 3);
  EXPECT_EQ(back.parts[0].weights, outline.parts[0].weights);
  EXPECT_EQ(back.parts[1].optimizer, outline.parts[1].optimizer);
  EXPECT_TRUE(parse_outline(write_outline(rank_of(1, {}))).parts.empty());
  expect_part(refusal([] { parse_outline("{}"); }), "the outline of a rank");
}

}  // namespace
}  // namespace trireme::ckpt
