// Models of many kinds, as pipelines: each gives what one process gives.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../pipe/models.h"
#include "pipeline_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

constexpr int64_t kWidth = 6;
// Not a multiple of the four microbatches: the first two have three rows, the others
// two.
constexpr int64_t kRows = 10;

using Forward = std::function<Tensors(const at::Tensor& weight, const Tensors& inputs)>;

/// Four stages with a square weight each; stages without a function of their own are
/// tanh(x w).
ModelMaker four_stages(const std::map<int, Forward>& special) {
  return [special] {
    std::vector<StagePtr> model;
    for (int i = 0; i < 4; ++i) {
      const at::Tensor w = parameter({kWidth, kWidth}, 20 + static_cast<uint64_t>(i));
      const auto found = special.find(i);
      const Forward forward =
          found == special.end()
              ? [](const at::Tensor& weight,
                   const Tensors& in) { return Tensors{in[0].mm(weight).tanh()}; }
              : found->second;
      model.push_back(make_stage(
          [forward, w](const Tensors& in) { return forward(w, in); },
          {{text("stage", i, ".w"), w}}));
    }
    return model;
  };
}

Problem four_stage_problem(const std::map<int, Forward>& special) {
  return {
      .model = four_stages(special),
      .loss = mean_square,
      .batch = dense_batch(kRows, kWidth),
      .options = {.return_outputs = true}};
}

// -- what goes between stages

TEST(PipelineModelsProcs, TwoInTwoOut) {
  const Forward both = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{in[0].mm(w).tanh() + in[1], in[0] * in[1].sigmoid()};
  };
  Problem problem = four_stage_problem({{0, both}, {1, both}, {2, both}, {3, both}});
  problem.batch.inputs.push_back(numbers({kRows, kWidth}, 9).set_requires_grad(true));
  problem.loss = [](const Tensors& out, const Tensors& target) {
    return mean_square(out, target) + out[1].abs().sum();
  };
  expect_equals_one_process(problem);
}

TEST(PipelineModelsProcs, OptionalTensors) {
  // The second output is there in the larger microbatches only; the third one never.
  const Forward sometimes = [](const at::Tensor& w, const Tensors& in) {
    const at::Tensor h = in[0].mm(w).tanh();
    return Tensors{h, h.size(0) > 2 ? h.sum(1, true) : at::Tensor(), at::Tensor()};
  };
  const Forward use = [](const at::Tensor& w, const Tensors& in) {
    EXPECT_EQ(in.size(), 3u);
    EXPECT_FALSE(in[2].defined());
    const at::Tensor h = in[0].mm(w);
    return Tensors{in[1].defined() ? h * in[1] : h, in[1], at::Tensor()};
  };
  const Forward last = [use](const at::Tensor& w, const Tensors& in) {
    return Tensors{use(w, in)[0]};
  };
  expect_equals_one_process(
      four_stage_problem({{0, sometimes}, {1, use}, {2, use}, {3, last}}));
}

TEST(PipelineModelsProcs, TensorsWithoutGradient) {
  const Forward first = [](const at::Tensor& w, const Tensors& in) {
    const at::Tensor h = in[0].mm(w).tanh();
    return Tensors{h, h.argmax(1), h.gt(0), h.detach() * 2};
  };
  const Forward middle = [](const at::Tensor& w, const Tensors& in) {
    EXPECT_EQ(in[1].scalar_type(), at::kLong);
    EXPECT_EQ(in[2].scalar_type(), at::kBool);
    EXPECT_FALSE(in[3].requires_grad());
    const at::Tensor h = in[0].mm(w.index_select(1, at::arange(kWidth)));
    return Tensors{h.where(in[2], h + in[3]), in[1], in[2], in[3]};
  };
  const Forward last = [middle](const at::Tensor& w, const Tensors& in) {
    return Tensors{middle(w, in)[0] + w.index_select(0, in[1])};
  };
  expect_equals_one_process(
      four_stage_problem({{0, first}, {1, middle}, {2, middle}, {3, last}}));
}

// Issue 9 of those about conditional models: in some microbatches nothing comes back.
TEST(PipelineModelsProcs, NoGradientInSomeMicrobatches) {
  const Forward cuts = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{(in[0].size(0) > 2 ? in[0].detach() : in[0]).mm(w).tanh()};
  };
  expect_equals_one_process(four_stage_problem({{2, cuts}}));
  // Nor does anything come back in any of them: the stages before have no gradients.
  const Forward always = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{in[0].detach().mm(w).tanh()};
  };
  expect_equals_one_process(four_stage_problem({{1, always}}));
}

// One of two outputs is not used by anybody.
TEST(PipelineModelsProcs, OutputsThatNobodyUses) {
  const Forward two = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{in[0].mm(w).tanh(), in[0].mm(w.t()).exp()};
  };
  expect_equals_one_process(four_stage_problem({{0, two}, {1, two}, {2, two}}));
}

TEST(PipelineModelsProcs, StagesThatDoNothing) {
  const Forward nothing = [](const at::Tensor&, const Tensors& in) { return in; };
  expect_equals_one_process(four_stage_problem({{1, nothing}, {2, nothing}}));
  expect_equals_one_process(four_stage_problem({{0, nothing}}));
  expect_equals_one_process(four_stage_problem({{3, nothing}}));
}

TEST(PipelineModelsProcs, ViewsAndTransposedOutputs) {
  const Forward view = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{in[0].mm(w).t(), in[0].slice(1, 0, kWidth, 2)};
  };
  const Forward back = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{in[0].t().mm(w).tanh() + in[1].sum(1, true)};
  };
  Problem problem = four_stage_problem({{0, view}, {1, back}});
  problem.exact = false;  // what arrives is contiguous, and summed up in another order
  expect_equals_one_process(problem);
}

TEST(PipelineModelsProcs, SideInputs) {
  const Forward masked = [](const at::Tensor& w, const Tensors& in) {
    EXPECT_EQ(in.size(), 2u);
    return Tensors{in[0].mm(w).tanh() * in[1]};
  };
  Problem problem = four_stage_problem({{0, masked}, {2, masked}});
  problem.batch.side_inputs = {
      {0, {numbers({kRows, 1}, 7)}}, {2, {numbers({kRows, kWidth}, 8).gt(0)}}};
  expect_equals_one_process(problem);
}

// -- ways past stages

TEST(PipelineModelsProcs, SkipConnections) {
  const Forward gives = [](const at::Tensor& w, const Tensors& in) {
    const at::Tensor h = in[0].mm(w).tanh();
    return Tensors{h, h * 2, h.sigmoid()};
  };
  const Forward takes_one = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{in[0].mm(w).tanh() + in[1]};
  };
  const Forward takes_two = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{(in[0] + in[1]).mm(w).tanh() - in[2]};
  };
  Problem problem = four_stage_problem({{0, gives}, {2, takes_one}, {3, takes_one}});
  problem.options.skips = {
      {.from = 0, .output = 1, .to = 3}, {.from = 0, .output = 2, .to = 2}};
  expect_equals_one_process(problem);
  // One output past two stages.
  problem.options.skips[1].output = 1;
  problem.options.skips.push_back({.from = 0, .output = 2, .to = 3});
  problem.model = four_stages({{0, gives}, {2, takes_one}, {3, takes_two}});
  expect_equals_one_process(problem);
  // Two outputs past the same stages, not in their order.
  problem = four_stage_problem({{0, gives}, {3, takes_two}});
  problem.options.skips = {
      {.from = 0, .output = 2, .to = 3}, {.from = 0, .output = 1, .to = 3}};
  expect_equals_one_process(problem);
}

TEST(PipelineModelsProcs, SkipConnectionsComeInTheOrderGiven) {
  const Forward three = [](const at::Tensor& w, const Tensors& in) {
    const at::Tensor h = in[0].mm(w).tanh();
    return Tensors{h, h * 2, h * 3};
  };
  const Forward takes = [](const at::Tensor& w, const Tensors& in) {
    return Tensors{in[0].mm(w).tanh() + in[1] + in[2] * 5 + in[3] * 7};
  };
  const Forward two = [](const at::Tensor& w, const Tensors& in) {
    const at::Tensor h = in[0].mm(w).tanh();
    return Tensors{h, h.exp()};
  };
  Problem problem = four_stage_problem({{0, three}, {1, two}, {3, takes}});
  problem.options.skips = {
      {.from = 0, .output = 1, .to = 3},
      {.from = 1, .output = 1, .to = 3},
      {.from = 0, .output = 2, .to = 3}};
  expect_equals_one_process(problem);
}

// -- parameters and buffers

/// Tokens in, logits out; the output layer is the embedding.
Problem language_model(uint64_t seed_of_head) {
  constexpr int64_t kWords = 11;
  Problem problem{
      .model =
          [=] {
            const at::Tensor embed = parameter({kWords, kWidth}, 30);
            const at::Tensor head = parameter({kWords, kWidth}, seed_of_head);
            return std::vector<StagePtr>{
                make_stage(
                    [embed](const Tensors& in) {
                      return Tensors{at::embedding(embed, in[0])};
                    },
                    {{"embed.w", embed}}),
                dense("block0", kWidth, kWidth, 31),
                dense("block1", kWidth, kWidth, 32),
                make_stage(
                    [head](const Tensors& in) {
                      return Tensors{at::linear(in[0], head)};
                    },
                    {{"head.w", head}})};
          },
      .loss =
          [](const Tensors& out, const Tensors& target) {
            return at::cross_entropy_loss(out[0], target[0]);
          },
      .options = {.return_outputs = true}};
  const at::Tensor words = at::arange(kRows * 3).mul(7).remainder(kWords);
  problem.batch.inputs = {words.slice(0, 0, kRows)};
  problem.batch.targets = {words.slice(0, kRows, 2 * kRows)};
  return problem;
}

TEST(PipelineModelsProcs, TiedEmbedding) {
  Problem problem = language_model(30);
  problem.options.tied = {{{{0, "embed.w"}, {3, "head.w"}}}};
  expect_equals_one_process(problem);
}

// The place that is named first has the value that counts.
TEST(PipelineModelsRanks, TiedParametersStartEqual) {
  Problem problem = language_model(30);
  problem.options.tied = {{{{0, "embed.w"}, {3, "head.w"}}}};
  problem.options.microbatches = 4;
  const Outcome wanted = run_alone(problem);
  Problem other = language_model(99);
  other.options = problem.options;
  testing::run_world(testing::Backend::Local, 4, [&](const comm::Group& world) {
    PipelineRank rank(other, world);
    rank.expect(wanted, rank.step());
  });
}

// One tensor in two stages of a rank, which nobody needs to declare.
TEST(PipelineModelsProcs, OneWeightInTwoStages) {
  Problem problem = four_stage_problem({});
  problem.options.schedule = "ZBVZeroBubble";
  problem.options.microbatches = 4;
  problem.model = [] {
    const auto stages = four_stages({});
    std::vector<StagePtr> model = stages();
    model[3] = model[0];
    return model;
  };
  const Outcome wanted = run_alone(problem);
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 2, [&](const comm::Group& world) {
      PipelineRank rank(problem, world);
      const StepResult result = rank.step();
      for (size_t m = 0; m < result.losses.size(); ++m)
        EXPECT_TRUE(testing::same(result.losses[m], wanted.losses[m]));
      for (const Stage& stage : rank.pipeline().stages())
        EXPECT_TRUE(close(
            stage.module->parameters()[0].second.grad(),
            wanted.model[static_cast<size_t>(stage.index)]
                ->parameters()[0]
                .second.grad()));
    });
}

TEST(PipelineModelsProcs, BuffersThatForwardUpdates) {
  Problem problem = four_stage_problem({});
  problem.model = [] {
    std::vector<StagePtr> model = four_stages({})();
    const at::Tensor w = parameter({kWidth}, 41);
    const at::Tensor mean = at::zeros({kWidth});
    const at::Tensor variance = at::ones({kWidth});
    const at::Tensor count = at::zeros({}, at::kLong);
    model[1] = make_stage(
        [=](const Tensors& in) {
          count.add_(1);
          return Tensors{at::batch_norm(
              in[0],
              w,
              at::Tensor(),
              mean,
              variance,
              /*training=*/true,
              0.1,
              1e-5,
              false)};
        },
        {{"norm.w", w}},
        {{"norm.mean", mean}, {"norm.var", variance}, {"norm.n", count}});
    return model;
  };
  expect_equals_one_process(problem);
}

TEST(PipelineModelsProcs, BFloat16) {
  Problem problem = four_stage_problem({});
  problem.model = [] {
    std::vector<StagePtr> model;
    for (uint64_t i = 0; i < 4; ++i) {
      const at::Tensor w =
          parameter({kWidth, kWidth}, 50 + i).detach().to(at::kBFloat16);
      w.set_requires_grad(true);
      model.push_back(make_stage(
          [w](const Tensors& in) {
            return Tensors{in[0].to(at::kBFloat16).mm(w).tanh()};
          },
          {{text("w", i), w}}));
    }
    return model;
  };
  problem.loss = [](const Tensors& out, const Tensors& target) {
    return (out[0].to(at::kFloat) - target[0]).pow(2).mean();
  };
  problem.options.loss_scale = 1024;
  expect_equals_one_process(problem);
}

}  // namespace
}  // namespace trireme::pipe
