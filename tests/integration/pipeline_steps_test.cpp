// What a step is given and what it gives: accumulation, numbers of microbatches, lists,
// weights, outputs; evaluation and forwards alone.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../pipe/models.h"
#include "pipeline_case.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;
using testing::same;

constexpr int64_t kStepWidth = 6;

/// Runs `body` on two threads, and on two processes, for a fused schedule and a split
/// one that goes there and back.
void on_two_ranks(
    Problem problem,
    const std::function<void(PipelineRank&, const comm::Group&)>& body) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (const auto& [name, stages] :
         {std::pair{"1F1B", 2}, {"ZBVZeroBubble", 4}, {"InterleavedZeroBubble", 4}}) {
      problem.options.schedule = name;
      problem.model = dense_model(stages, kStepWidth);
      testing::run_world(backend, 2, [&](const comm::Group& world) {
        SCOPED_TRACE(text(problem.options.schedule, ", rank ", world.rank()));
        PipelineRank rank(problem, world);
        body(rank, world);
      });
    }
}

/// What one process makes of the problem with as many stages as the rank's pipeline
/// has.
Outcome alone(Problem problem, PipelineRank& rank, int steps = 1) {
  problem.model =
      dense_model(static_cast<int>(rank.pipeline().rank_of_stage().size()), kStepWidth);
  return run_alone(problem, steps);
}

TEST(PipelineStepsProcs, GradientsAddUpOverSteps) {
  const Problem problem = dense_problem("1F1B", 2, 4, 9);
  on_two_ranks(problem, [&](PipelineRank& rank, const comm::Group&) {
    StepResult last;
    for (int step = 0; step < 4; ++step)
      last = rank.step();
    rank.expect(alone(problem, rank, 4), last);
  });
}

TEST(PipelineStepsProcs, NumberOfMicrobatchesChanges) {
  const Problem problem = dense_problem("1F1B", 2, 4, 16);
  on_two_ranks(problem, [&](PipelineRank& rank, const comm::Group&) {
    for (const int microbatches : {2, 8, 4, 16, 2}) {
      Problem step = problem;
      step.batch.microbatches = microbatches;
      rank.zero_grad();
      rank.expect(alone(step, rank), rank.pipeline().step(rank.share(step.batch)));
    }
  });
}

TEST(PipelineStepsProcs, ListsEqualWholeBatches) {
  const Problem problem = dense_problem("1F1B", 2, 4, 10);
  Problem lists = problem;
  lists.batch = {
      .input_microbatches = split(problem.batch.inputs, 4),
      .target_microbatches = split(problem.batch.targets, 4)};
  on_two_ranks(problem, [&](PipelineRank& rank, const comm::Group&) {
    rank.expect(alone(problem, rank), rank.pipeline().step(rank.share(lists.batch)));
  });
}

// Of uneven microbatches, the mean is that of the whole batch.
TEST(PipelineStepsRanks, MeanIsThatOfTheWholeBatch) {
  Problem uneven = dense_problem("1F1B", 2, 4, 10);
  Problem whole = uneven;
  whole.options.microbatches = 1;
  const Outcome wanted = run_alone(whole);
  uneven.exact = false;
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank rank(uneven, world);
    rank.step();
    rank.expect_gradients(wanted);
  });
}

TEST(PipelineStepsProcs, WeightsSumsAndScales) {
  Problem problem = dense_problem("1F1B", 2, 4, 10);
  problem.batch.weights = {5, 1, 0, 2.5};
  const auto check = [&] {
    on_two_ranks(problem, [&](PipelineRank& rank, const comm::Group&) {
      rank.expect(alone(problem, rank), rank.step());
    });
  };
  check();
  problem.options.loss_scale = 1024;
  check();
  problem.options.reduction = LossReduction::Sum;
  check();
  problem.batch.weights.clear();
  check();
}

TEST(PipelineStepsRanks, OutputsAsTheSpecsSay) {
  Problem problem = dense_problem("1F1B", 2, 4, 8);
  problem.model = [] {
    std::vector<StagePtr> model = dense_model(2, kStepWidth)();
    model[1] = make_stage([](const Tensors& in) {
      return Tensors{in[0].t(), in[0].sum(), at::ones({3}), at::Tensor()};
    });
    return model;
  };
  problem.loss = [](const Tensors& out, const Tensors&) {
    return out[0].pow(2).mean();
  };
  problem.options.output_specs = {
      {.dim = 1},
      {.how = MergeSpec::How::Fold,
       .fold = [](const at::Tensor& a, const at::Tensor& b) { return a + b; }},
      {.how = MergeSpec::How::Equal},
      {}};
  const Outcome wanted = run_alone(problem);
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    const StepResult result = rank.step();
    rank.expect(wanted, result);
    if (!rank.has_last())
      return;
    EXPECT_EQ(result.outputs[0].sizes(), (std::vector<int64_t>{kStepWidth, 8}));
    EXPECT_EQ(result.outputs[1].dim(), 0);
    EXPECT_TRUE(same(result.outputs[2], at::ones({3})));
    EXPECT_FALSE(result.outputs[3].defined());
  });
}

TEST(PipelineStepsProcs, NoOutputsUnlessAskedFor) {
  Problem problem = dense_problem("1F1B", 2, 4);
  problem.options.return_outputs = false;
  on_two_ranks(problem, [&](PipelineRank& rank, const comm::Group&) {
    rank.expect(alone(problem, rank), rank.step());
    EXPECT_TRUE(rank.pipeline().evaluate(rank.share(problem.batch)).outputs.empty());
  });
}

// Evaluation gives the losses of training and leaves nothing: no gradients, no graph,
// and a step afterwards is as if it had not been.
TEST(PipelineStepsProcs, EvaluationLeavesNothing) {
  const Problem problem = dense_problem("1F1B", 2, 4, 10);
  on_two_ranks(problem, [&](PipelineRank& rank, const comm::Group&) {
    const Outcome wanted = alone(problem, rank);
    for (int round = 0; round < 2; ++round) {
      const StepResult result = rank.pipeline().evaluate(rank.share(problem.batch));
      ASSERT_EQ(result.losses.size(), rank.has_last() ? 4u : 0u);
      for (size_t m = 0; m < result.losses.size(); ++m)
        EXPECT_TRUE(same(result.losses[m], wanted.losses[m]));
      for (const at::Tensor& output : result.outputs) {
        EXPECT_FALSE(output.requires_grad());
        EXPECT_TRUE(same(output, merge(wanted.outputs)[0]));
      }
      for (const auto& [name, tensor] : rank.pipeline().parameters())
        EXPECT_FALSE(tensor.grad().defined());
      const at::NoGradGuard no_grad;
      rank.pipeline().evaluate(rank.share(problem.batch));
    }
    rank.expect(wanted, rank.step());
  });
}

// What comes out goes in again, twenty times.
TEST(PipelineStepsProcs, ForwardOnlyInAChain) {
  Problem problem = dense_problem("1F1B", 2, 4, 8);
  problem.loss = nullptr;
  on_two_ranks(problem, [&](PipelineRank& rank, const comm::Group& world) {
    const int last = rank.pipeline().rank_of_stage().back();
    at::Tensor x = problem.batch.inputs[0].clone();
    at::Tensor wanted = x;
    const auto model = dense_model(
        static_cast<int>(rank.pipeline().rank_of_stage().size()), kStepWidth)();
    for (int turn = 0; turn < 20; ++turn) {
      Batch batch;
      if (rank.has(0))
        batch.inputs = {x};
      const Tensors outputs = rank.pipeline().forward_only(batch);
      EXPECT_EQ(outputs.size(), rank.has_last() ? 1u : 0u);
      x = outputs.empty() ? at::empty_like(wanted) : outputs[0];
      comm::broadcast(world, x, last);
      const at::NoGradGuard no_grad;
      Tensors parts;
      for (const at::Tensor& part : wanted.chunk(4)) {
        parts.push_back(part);
        for (const StagePtr& stage : model)
          parts.back() = stage->forward({parts.back()})[0];
      }
      wanted = at::cat(parts);
    }
    EXPECT_TRUE(same(x, wanted));
  });
}

// Each is a world of its own to the others, though they share their ranks.
TEST(PipelineStepsProcs, SeveralPipelinesOnOneGroup) {
  const Problem fused = dense_problem("1F1B", 2, 4);
  const Problem split = dense_problem("ZBVZeroBubble", 4, 6);
  const Outcome wanted_fused = run_alone(fused, 3);
  const Outcome wanted_split = run_alone(split, 3);
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(backend, 2, [&](const comm::Group& world) {
      PipelineRank one(fused, world);
      PipelineRank two(split, world);
      StepResult of_one;
      StepResult of_two;
      for (int step = 0; step < 3; ++step) {
        of_one = one.step();
        of_two = two.step();
      }
      one.expect(wanted_fused, of_one);
      two.expect(wanted_split, of_two);
    });
}

}  // namespace
}  // namespace trireme::pipe
