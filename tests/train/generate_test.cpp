#include "trireme/train/generate.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <map>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/gpt2.h"

namespace trireme::train {
namespace {

std::map<int64_t, int> draw_often(const at::Tensor& logits, SampleOptions options) {
  data::SplitMix random(7);
  std::map<int64_t, int> counts;
  for (int i = 0; i < 4000; ++i)
    ++counts[draw(logits, options, random).token];
  return counts;
}

TEST(Generate, DrawsByProbability) {
  const at::Tensor logits = at::tensor({0.6, 0.3, 0.1}).log();
  const auto counts = draw_often(logits, {.temperature = 1});
  EXPECT_NEAR(counts.at(0), 2400, 150);
  EXPECT_NEAR(counts.at(1), 1200, 150);
  EXPECT_NEAR(counts.at(2), 400, 100);
}

TEST(Generate, LimitsLeaveOutTheUnlikely) {
  const at::Tensor logits = at::tensor({0.2, 0.5, 0.3}).log();
  EXPECT_EQ(draw_often(logits, {.temperature = 0}).size(), 1U);
  EXPECT_EQ(draw_often(logits, {.temperature = 0}).begin()->first, 1);
  const auto two = draw_often(logits, {.temperature = 1, .top_k = 2});
  EXPECT_EQ(two.size(), 2U);
  EXPECT_FALSE(two.contains(0));
  const auto half = draw_often(logits, {.temperature = 1, .top_p = 0.5});
  EXPECT_EQ(half.size(), 1U);
  const auto more = draw_often(logits, {.temperature = 1, .top_p = 0.6});
  EXPECT_EQ(more.size(), 2U);
  EXPECT_EQ(draw_often(logits, {.temperature = 1, .top_k = 99}).size(), 3U);
}

TEST(Generate, TokensThatNobodyCanReadAreLeftOut) {
  const at::Tensor logits = at::tensor({0.1, 0.2, 0.7}).log();
  EXPECT_EQ(draw_often(logits, {.temperature = 0, .vocabulary = 2}).begin()->first, 1);
  EXPECT_EQ(draw_often(logits, {.temperature = 1, .vocabulary = 2}).size(), 2U);
}

TEST(Generate, LogprobsAreTheModels) {
  data::SplitMix random(1);
  const at::Tensor logits = at::tensor({0.25, 0.75}).log() + 5;
  EXPECT_NEAR(draw(logits, {.temperature = 0}, random).logprob, std::log(0.75), 1e-6);
}

TEST(Generate, LogitsThatAreNoNumbersAreRefused) {
  data::SplitMix random(1);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {std::nan(""), infinity})
    for (const double temperature : {0.0, 1.0})
      EXPECT_THROW(
          draw(at::tensor({0.5, bad, 1.0}), {.temperature = temperature}, random),
          InvalidArgument);
  // Ruled out by the model, but no trouble.
  EXPECT_EQ(draw(at::tensor({-infinity, 1.0}), {.temperature = 1}, random).token, 1);
}

TEST(Generate, RefusesOptionsWithoutSense) {
  EXPECT_THROW(check_options({.max_new_tokens = -1}), InvalidArgument);
  EXPECT_THROW(check_options({.temperature = -0.1}), InvalidArgument);
  EXPECT_THROW(check_options({.top_k = -1}), InvalidArgument);
  EXPECT_THROW(check_options({.top_p = 0}), InvalidArgument);
  EXPECT_THROW(check_options({.top_p = 1.5}), InvalidArgument);
}

model::ModelPlan tiny() {
  return model::plan_gpt2(
      {.vocab_size = 64, .n_positions = 32, .n_embd = 16, .n_layer = 3, .n_head = 2});
}

Generated generate_on(int ranks, const SampleOptions& options, int64_t stop_at = -1) {
  const model::ModelPlan plan = tiny();
  const std::vector<int> owners =
      ranks == 1 ? std::vector<int>{0} : std::vector<int>{0, 1, 1, 0};
  const std::vector<sched::LayerRange> ranges =
      ranks == 1 ? std::vector<sched::LayerRange>{{0, 6}}
                 : std::vector<sched::LayerRange>{{0, 2}, {2, 3}, {3, 4}, {4, 6}};
  Generated all;
  comm::run_local(ranks, [&](const comm::Group& group) {
    StageDecoders stages{.rank_of_stage = owners, .decoders = {}};
    for (size_t i = 0; i < owners.size(); ++i)
      if (owners[i] == group.rank())
        stages.decoders.push_back(std::make_unique<model::Decoder>(
            model::build_stages(plan, {ranges[i]}, {.seed = 5}).front()));
    const Generated made = generate(
        group,
        stages,
        {3, 1, 4},
        options,
        plan.max_positions,
        [&](const std::vector<int64_t>& news) {
          return static_cast<int64_t>(news.size()) == stop_at;
        });
    if (group.rank() == 0)
      all = made;
  });
  return all;
}

TEST(GenerateRanks, APipelineGivesTheSameText) {
  const SampleOptions options{.max_new_tokens = 12, .seed = 3};
  const Generated one = generate_on(1, options);
  const Generated two = generate_on(2, options);
  ASSERT_EQ(one.new_ids.size(), 12U);
  EXPECT_EQ(one.ids.size(), 15U);
  EXPECT_EQ(one.ids, two.ids);
  EXPECT_EQ(one.logprobs, two.logprobs);
  EXPECT_NE(generate_on(1, {.max_new_tokens = 12, .seed = 4}).ids, one.ids);
}

TEST(GenerateRanks, AllRanksHearOfLogitsThatAreNoNumbers) {
  const model::ModelPlan plan = tiny();
  const std::vector<sched::LayerRange> ranges{{0, 3}, {3, 6}};
  std::atomic<int> refused{0};
  comm::run_local(2, [&](const comm::Group& group) {
    const auto layers = model::build_stages(
        plan, {ranges[static_cast<size_t>(group.rank())]}, {.seed = 5});
    const at::NoGradGuard no_grad;
    if (group.rank() == 1)
      pipe::parameters(layers.front()).back().second.fill_(std::nan(""));
    StageDecoders stages{.rank_of_stage = {0, 1}, .decoders = {}};
    stages.decoders.push_back(std::make_unique<model::Decoder>(layers.front()));
    try {
      generate(group, stages, {3, 1}, {}, plan.max_positions);
    } catch (const InvalidArgument&) {
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST(GenerateRanks, StopsWhereItShould) {
  EXPECT_EQ(generate_on(2, {.max_new_tokens = 12}, 5).new_ids.size(), 5U);
  // 32 positions, 3 of them the prompt's.
  EXPECT_EQ(generate_on(1, {.max_new_tokens = 100}).new_ids.size(), 29U);
  EXPECT_TRUE(generate_on(1, {.max_new_tokens = 0}).new_ids.empty());
}

}  // namespace
}  // namespace trireme::train
