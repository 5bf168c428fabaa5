// Twenty steps of training, with torch's optimizers, equal those of one process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "pipeline_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

constexpr int kSteps = 20;

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named)
    tensors.push_back(tensor);
  return tensors;
}

/// The losses of all steps; the outcome has the weights.
std::vector<at::Tensor> train_alone(
    const Problem& problem, const MakeOptimizer& make, Outcome& outcome) {
  outcome = {.model = problem.model(), .inputs = problem.batch.inputs};
  NamedTensors all;
  for (const StagePtr& stage : outcome.model)
    for (const auto& named : stage->parameters())
      all.push_back(named);
  const auto optimizer = make(tensors_of(all));
  std::vector<at::Tensor> losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    step_alone(problem, outcome, step);
    optimizer->step();
    losses.insert(losses.end(), outcome.losses.begin(), outcome.losses.end());
  }
  return losses;
}

void trains_as_alone(const MakeOptimizer& make) {
  for (const auto& [name, stages] :
       {std::pair{"1F1B", 2}, {"ZB-H1", 2}, {"Interleaved1F1B", 4}, {"DualPipeV", 4}}) {
    const Problem problem = dense_problem(name, stages, 4, 9);
    Outcome wanted;
    const std::vector<at::Tensor> losses = train_alone(problem, make, wanted);
    ASSERT_LT(losses.back().item<float>(), losses[3].item<float>());
    for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
      testing::run_world(backend, 2, [&](const comm::Group& world) {
        SCOPED_TRACE(text(name, ", rank ", world.rank(), " of ", world.backend()));
        PipelineRank rank(problem, world);
        const auto optimizer = make(tensors_of(rank.pipeline().parameters()));
        for (size_t step = 0; step < kSteps; ++step) {
          optimizer->zero_grad();
          const StepResult result = rank.step();
          optimizer->step();
          for (size_t m = 0; m < result.losses.size(); ++m)
            EXPECT_TRUE(close(result.losses[m], losses[4 * step + m])) << step;
        }
        for (const Stage& stage : rank.pipeline().stages()) {
          const NamedTensors got = stage.module->parameters();
          const NamedTensors there =
              wanted.model[static_cast<size_t>(stage.index)]->parameters();
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_TRUE(
                rank.in_order(stage.index)
                    ? testing::same(got[i].second, there[i].second)
                    : close(got[i].second, there[i].second))
                << got[i].first;
        }
      });
  }
}

TEST(PipelineTrainingProcs, Sgd) {
  trains_as_alone([](std::vector<at::Tensor> tensors) {
    return std::make_unique<torch::optim::SGD>(
        std::move(tensors), torch::optim::SGDOptions(0.1).momentum(0.9));
  });
}

TEST(PipelineTrainingProcs, AdamW) {
  trains_as_alone([](std::vector<at::Tensor> tensors) {
    return std::make_unique<torch::optim::AdamW>(
        std::move(tensors), torch::optim::AdamWOptions(0.01));
  });
}

}  // namespace
}  // namespace trireme::pipe
