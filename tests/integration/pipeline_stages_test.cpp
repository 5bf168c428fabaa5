// Stages with a will of their own: TorchScript, own I and W, modes, changing shapes,
// dropout.
#include <mutex>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "../pipe/models.h"
#include "pipeline_case.h"
#include "trireme/autograd/checkpoint.h"
#include "trireme/autograd/dropout.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/autograd/split_function.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/pipe/jit_stage.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;

constexpr int64_t kStageWidth = 6;

/// Four dense stages, one of them replaced.
ModelMaker with_stage(size_t place, const std::function<StagePtr()>& make) {
  return [=] {
    std::vector<StagePtr> model = dense_model(4, kStageWidth)();
    model[place] = make();
    return model;
  };
}

Problem problem_with(size_t place, const std::function<StagePtr()>& make) {
  Problem problem = dense_problem("1F1B", 4, 4, 10);
  problem.model = with_stage(place, make);
  return problem;
}

// -- TorchScript

StagePtr scripted(const std::string& forward) {
  torch::jit::Module module("Scripted");
  module.register_parameter("w", parameter({kStageWidth, kStageWidth}, 60), false);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(forward);
  return make_jit_stage(module, "script");
}

TEST(PipelineStagesRanks, TorchScriptUnderSchedulesThatDoNotSplit) {
  Problem problem = problem_with(1, [] {
    return scripted(
        "def forward(self, x):\n  return torch.tanh(torch.mm(x, self.w))\n");
  });
  const Outcome wanted = run_alone(problem);
  for (const auto& [name, ranks] :
       {std::pair{"GPipe", 4}, {"1F1B", 4}, {"Interleaved1F1B", 2}, {"LoopedBFS", 2}}) {
    problem.options.schedule = name;
    testing::run_world(Backend::Local, ranks, [&](const comm::Group& world) {
      SCOPED_TRACE(problem.options.schedule);
      PipelineRank rank(problem, world);
      rank.expect(wanted, rank.step());
    });
  }
}

// I is all of its backward, W nothing; the log says so, once a stage.
TEST(PipelineStagesRanks, TorchScriptStaysWholeWhereBackwardIsSplit) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto sink = set_log_sink([&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  });
  Problem problem = problem_with(1, [] {
    return scripted(
        "def forward(self, x):\n  return torch.tanh(torch.mm(x, self.w))\n");
  });
  problem.exact = false;  // TorchScript has formulas of its own
  const Outcome once = run_alone(problem);
  const Outcome wanted = run_alone(problem, 3);
  for (const auto& [name, ranks] :
       {std::pair{"ZB-H1", 4},
        {"ZBVZeroBubble", 2},
        {"InterleavedZeroBubble", 2},
        {"DualPipeV", 2}}) {
    problem.options.schedule = name;
    lines.clear();
    testing::run_world(Backend::Local, ranks, [&](const comm::Group& world) {
      SCOPED_TRACE(problem.options.schedule);
      PipelineRank rank(problem, world);
      rank.step();
      rank.expect_gradients(once);
      rank.step();  // TorchScript compiles after a few runs
      rank.step();
      rank.expect_gradients(wanted);
      const std::vector<StageSplits> splits = rank.pipeline().report().splits;
      ASSERT_EQ(splits.size(), 4U);
      EXPECT_EQ(splits[1].split, 0);
      ASSERT_EQ(splits[1].whole.size(), 1U);
      EXPECT_TRUE(
          testing::contains(splits[1].whole.begin()->first, "DifferentiableGraph"));
      EXPECT_GT(splits[2].split, 0);
    });
    ASSERT_EQ(lines.size(), 1U) << name;
    EXPECT_TRUE(testing::contains(
        lines[0], "stage 1: its backward cannot be split, so that I"));
  }
}

// -- a stage that brings its own I and W

/// x w, whose backward has two halves of its own.
class OwnSplit : public StageModule {
 public:
  OwnSplit() : w_(parameter({kStageWidth, kStageWidth}, 61)) {}

  Tensors forward(const Tensors& inputs) override {
    const at::Tensor x = inputs[0].detach();
    const at::Tensor w = w_.detach();
    return {autograd::split_function(
                {x.mm(w)},
                {inputs[0]},
                {w_},
                {.of_inputs = [w](const Tensors& g) { return Tensors{g[0].mm(w.t())}; },
                 .of_weights =
                     [this, x](const Tensors& g) {
                       ++calls;
                       return Tensors{x.t().mm(g[0])};
                     }})[0]
                .tanh()};
  }
  NamedTensors parameters() const override { return {{"own.w", w_}}; }

  int calls = 0;

 private:
  at::Tensor w_;
};

TEST(PipelineStagesProcs, OwnInputAndWeightGradients) {
  for (const size_t place : {0, 1, 3})
    expect_equals_one_process(
        problem_with(place, [] { return std::make_shared<OwnSplit>(); }));
}

TEST(PipelineStagesRanks, OwnWeightWorkRunsOnceAMicrobatch) {
  for (const char* name : {"1F1B", "ZB-H1"}) {
    Problem problem = dense_problem(name, 2, 4);
    problem.model = [] {
      return std::vector<StagePtr>{
          std::make_shared<OwnSplit>(), std::make_shared<OwnSplit>()};
    };
    testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
      PipelineRank rank(problem, world);
      rank.step();
      EXPECT_EQ(dynamic_cast<OwnSplit&>(*rank.pipeline().stages()[0].module).calls, 4);
    });
  }
}

// -- stages that change their inputs

/// Linear layers, since torch keeps the outputs of some others, which must not change.
TEST(PipelineStagesProcs, StagesMayChangeTheirInputs) {
  Problem problem = dense_problem("1F1B", 4, 4, 10);
  problem.model = [] {
    std::vector<StagePtr> model;
    for (const uint64_t stage : {0, 1, 2, 3}) {
      const at::Tensor w = parameter({kStageWidth, kStageWidth}, 80 + stage);
      model.push_back(make_stage(
          [w, stage](const Tensors& in) {
            if (stage > 0)
              in[0].relu_();
            return Tensors{at::linear(in[0], w)};
          },
          {{text("w", stage), w}}));
    }
    return model;
  };
  expect_equals_one_process(problem);
}

/// Two outputs that are one memory, of which the next stage changes the first.
TEST(PipelineStagesProcs, OutputsOfOneMemoryArriveApart) {
  const auto model = [](bool one_memory) {
    return [one_memory] {
      std::vector<StagePtr> stages;
      for (const uint64_t stage : {0, 1}) {
        const at::Tensor w = parameter({kStageWidth, kStageWidth}, 84 + stage);
        stages.push_back(make_stage(
            [w, stage, one_memory](const Tensors& in) -> Tensors {
              if (stage == 1)
                return {at::linear(in[0].relu_(), w) + in[1]};
              const at::Tensor y = at::linear(in[0], w);
              return {y, one_memory ? y : y.clone()};
            },
            {{text("w", stage), w}}));
      }
      return stages;
    };
  };
  Problem apart = dense_problem("1F1B", 2, 4, 10);
  apart.model = model(false);
  const Outcome wanted = run_alone(apart);
  Problem together = apart;
  together.model = model(true);
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(backend, 2, [&](const comm::Group& world) {
      PipelineRank rank(together, world);
      rank.step();
      rank.expect_gradients(wanted);
    });
}

// -- modes

/// Notes in which mode it was called, and whether gradients were on.
class Moody : public StageModule {
 public:
  Tensors forward(const Tensors& inputs) override {
    modes.push_back(is_training());
    graphs.push_back(c10::GradMode::is_enabled());
    return {is_training() ? (inputs[0] * w_).tanh() : inputs[0] * w_};
  }
  NamedTensors parameters() const override { return {{"w", w_}}; }
  std::vector<bool> modes;
  std::vector<bool> graphs;

 private:
  at::Tensor w_ = parameter({kStageWidth}, 62);
};

TEST(PipelineStagesRanks, TrainAndEvaluationMode) {
  Problem problem = dense_problem("1F1B", 2, 2);
  problem.model = [] {
    return std::vector<StagePtr>{std::make_shared<Moody>(), std::make_shared<Moody>()};
  };
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    auto& stage = dynamic_cast<Moody&>(*rank.pipeline().stages()[0].module);
    rank.step();
    rank.pipeline().evaluate(rank.share(problem.batch));
    EXPECT_TRUE(stage.is_training());
    rank.pipeline().train(false);
    rank.step();
    rank.pipeline().evaluate(rank.share(problem.batch));
    EXPECT_FALSE(stage.is_training());
    rank.pipeline().forward_only(rank.share(problem.batch));
    rank.pipeline().train();
    rank.pipeline().forward_only(rank.share(problem.batch));
    const std::vector<bool> modes{
        true, true, false, false, false, false, false, false, false, false, true, true};
    const std::vector<bool> graphs{
        true, true, false, false, true, true, false, false, false, false, false, false};
    EXPECT_EQ(stage.modes, modes);
    EXPECT_EQ(stage.graphs, graphs);
  });
}

// -- shapes

/// Sequences of these lengths, for layers that look at the last dim only.
Batch sequences(const std::vector<int64_t>& lengths) {
  Batch batch;
  for (const int64_t length : lengths) {
    const auto seed = static_cast<uint64_t>(length);
    batch.input_microbatches.push_back({numbers({2, length, kStageWidth}, seed)});
    batch.target_microbatches.push_back({numbers({2, length, kStageWidth}, seed + 50)});
  }
  return batch;
}

TEST(PipelineStagesProcs, ShapesChangeWithMicrobatchesAndSteps) {
  Problem problem = dense_problem("1F1B", 4, 4);
  problem.options.return_outputs = false;
  problem.batch = sequences({3, 9, 1, 5});
  expect_equals_one_process(problem);
  problem.options.schedule = "ZBVZeroBubble";
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(backend, 2, [&](const comm::Group& world) {
      PipelineRank rank(problem, world);
      for (const auto& lengths : std::vector<std::vector<int64_t>>{
               {3, 9, 1, 5}, {100, 1, 2, 3}, {7, 7, 7, 7}, {2, 40, 8, 300}}) {
        Problem step = problem;
        step.batch = sequences(lengths);
        const Outcome wanted = run_alone(step);
        rank.zero_grad();
        rank.expect(wanted, rank.pipeline().step(rank.share(step.batch)));
      }
    });
}

// -- blocks that are computed again

TEST(PipelineStagesProcs, CheckpointedBlocks) {
  Problem problem = dense_problem("1F1B", 4, 4, 10);
  problem.model = [] {
    std::vector<StagePtr> model;
    for (uint64_t i = 0; i < 4; ++i) {
      const at::Tensor w = parameter({kStageWidth, kStageWidth}, 80 + i);
      // A buffer, so that the runs can be compared with those of one process.
      const at::Tensor runs = at::zeros({}, at::kLong);
      const auto block = [w, runs](const at::Tensor& x) {
        runs.add_(1);
        return x.mm(w).tanh().mm(w.t());
      };
      model.push_back(make_stage(
          [block](const Tensors& in) {
            return Tensors{autograd::checkpoint(block, in[0])};
          },
          {{text("w", i), w}},
          {{text("runs", i), runs}}));
    }
    return model;
  };
  const Outcome wanted = run_alone(problem);
  EXPECT_EQ(wanted.model[0]->buffers()[0].second.item<int64_t>(), 2 * 4);
  expect_equals_one_process(problem);
}

// -- dropout

Problem dropout_problem() {
  Problem problem = dense_problem("1F1B", 4, 4, 10);
  problem.options.seed = 7;
  problem.model = [] {
    std::vector<StagePtr> model;
    for (uint64_t i = 0; i < 4; ++i) {
      const at::Tensor w = parameter({kStageWidth, kStageWidth}, 70 + i);
      const uint64_t key = autograd::layer_key(text("drop", i));
      model.push_back(make_stage(
          [w, key](const Tensors& in) {
            return Tensors{autograd::dropout(in[0].mm(w), 0.3, key, true)};
          },
          {{text("w", i), w}}));
    }
    return model;
  };
  return problem;
}

TEST(PipelineStagesProcs, DropoutDrawsWhatOneProcessDraws) {
  expect_equals_one_process(dropout_problem());
}

// Steps of training count, evaluations do not, and a batch may say its own number.
TEST(PipelineStagesRanks, DropoutDrawsAnewInEveryStep) {
  Problem problem = dropout_problem();
  problem.options.schedule = "ZBVZeroBubble";
  Outcome wanted = run_alone(problem, 2);
  const Outcome second = wanted;
  step_alone(problem, wanted, 9);
  testing::run_world(testing::Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    Batch batch = rank.share(problem.batch);
    const StepResult first = rank.pipeline().step(batch);
    rank.pipeline().evaluate(batch);
    StepResult result = rank.pipeline().step(batch);
    for (size_t i = 0; i < result.losses.size(); ++i) {
      EXPECT_TRUE(testing::same(result.losses[i], second.losses[i]));
      EXPECT_FALSE(testing::same(result.losses[i], first.losses[i]));
    }
    batch.step = 9;
    result = rank.pipeline().step(batch);
    rank.expect(wanted, result);
  });
}

}  // namespace
}  // namespace trireme::pipe
