// The same model under every layout: losses and gradients of a pipeline are those of
// one rank, dropout, checkpoints and tied parameters included.
#include <mutex>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../model/small_models.h"
#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/gpt2.h"
#include "trireme/model/llama.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/pipeline.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::model {
namespace {

struct Layout {
  std::string schedule;
  int ranks = 1;
  sched::StageMap map = sched::StageMap::Loop;
  std::vector<sched::LayerRange> ranges;
};

struct Outcome {
  std::vector<at::Tensor> losses;
  std::map<std::string, at::Tensor> gradients;
};

constexpr int kSequences = 6, kLength = 10, kMicrobatches = 3;

void run_rank(
    const ModelPlan& plan,
    const Layout& layout,
    const BuildOptions& options,
    const comm::Group& world,
    const std::function<void(const pipe::StepResult&, const pipe::Pipeline&)>& keep) {
  const int stages = static_cast<int>(layout.ranges.size());
  const auto owners = sched::map_stages(layout.map, world.size(), stages);
  std::vector<sched::LayerRange> mine;
  const std::vector<int> numbers = sched::stages_of(owners, world.rank());
  for (const int stage : numbers)
    mine.push_back(layout.ranges[static_cast<size_t>(stage)]);
  const auto lists = build_stages(plan, mine, options);
  std::vector<pipe::Stage> built;
  for (size_t i = 0; i < lists.size(); ++i)
    built.push_back({numbers[i], pipe::make_stage(lists[i])});
  pipe::Pipeline pipeline(
      built,
      world,
      [](const pipe::Tensors& out, const pipe::Tensors& targets) {
        return loss_of(out[0], targets[0]);
      },
      {.schedule = layout.schedule,
       .microbatches = kMicrobatches,
       .tied = tied_places(plan, layout.ranges),
       .seed = 11});
  pipe::Batch batch;
  if (world.rank() == owners.front())
    batch.inputs = {some_tokens(kSequences, kLength, 1)};
  if (world.rank() == owners.back())
    batch.targets = {some_tokens(kSequences, kLength, 2)};
  keep(pipeline.step(batch), pipeline);
}

Outcome run(const ModelPlan& plan, const Layout& layout, const BuildOptions& options) {
  Outcome outcome;
  std::mutex mutex;
  testing::run_world(
      testing::Backend::Local, layout.ranks, [&](const comm::Group& world) {
        run_rank(
            plan,
            layout,
            options,
            world,
            [&](const auto& result, const auto& pipeline) {
              const std::lock_guard lock(mutex);
              if (!result.losses.empty())
                outcome.losses = result.losses;
              for (const auto& [name, parameter] : pipeline.parameters())
                outcome.gradients[name] = parameter.grad();
            });
      });
  return outcome;
}

void expect_equal(const ModelPlan& plan, const BuildOptions& options) {
  const Outcome wanted =
      run(plan, {"GPipe", 1, sched::StageMap::Loop, {{0, 5}}}, options);
  ASSERT_EQ(wanted.losses.size(), size_t{kMicrobatches});
  const std::vector<Layout> layouts{
      {"1F1B", 2, sched::StageMap::Loop, {{0, 2}, {2, 5}}},
      {"ZB-H1", 2, sched::StageMap::Loop, {{0, 3}, {3, 5}}},
      {"Interleaved1F1B", 2, sched::StageMap::Loop, {{0, 1}, {1, 2}, {2, 3}, {3, 5}}},
      // The first and the last stage meet on rank 0.
      {"ZBVZeroBubble", 2, sched::StageMap::V, {{0, 1}, {1, 2}, {2, 3}, {3, 5}}}};
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(text(plan.type, " ", layout.schedule));
    const Outcome got = run(plan, layout, options);
    ASSERT_EQ(got.losses.size(), wanted.losses.size());
    for (size_t i = 0; i < got.losses.size(); ++i)
      EXPECT_TRUE(testing::same(got.losses[i], wanted.losses[i])) << i;
    for (const auto& [name, gradient] : wanted.gradients)
      EXPECT_TRUE(at::allclose(got.gradients.at(name), gradient, 1.3e-6, 1e-5)) << name;
    // The second name of a tied parameter, where it is another tensor.
    for (const auto& tied : plan.tied) {
      const auto second = got.gradients.find(tied[1]);
      if (second != got.gradients.end()) {
        EXPECT_TRUE(testing::same(second->second, got.gradients.at(tied[0])));
      }
    }
  }
}

TEST(ModelLayoutsRanks, EqualOneRank) {
  expect_equal(plan_gpt2(small_gpt2()), {.seed = 5});
  expect_equal(plan_llama(small_llama()), {.seed = 5});
  LlamaConfig tied = small_llama();
  tied.tie_word_embeddings = true;
  expect_equal(plan_llama(tied), {.seed = 5});
}

TEST(ModelLayoutsRanks, EqualOneRankWithDropoutAndCheckpoints) {
  expect_equal(plan_gpt2(small_gpt2()), {.seed = 5, .dropout = 0.2});
  expect_equal(
      plan_gpt2(small_gpt2()), {.seed = 5, .dropout = 0.2, .checkpoint = true});
  expect_equal(
      plan_llama(small_llama()), {.seed = 5, .dropout = 0.2, .checkpoint = true});
}

}  // namespace
}  // namespace trireme::model
