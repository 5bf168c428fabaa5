// A pipeline's losses are PyTorch's: tests/peer/pipeline_losses.py trains the same
// there.
#include <mutex>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/pipeline.h"
#include "trireme/sched/generate.h"
#include "trireme/testing/peer.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

constexpr int kSteps = 5, kMicrobatches = 4, kRows = 8, kWidth = 12, kLayers = 4;
constexpr double kRate = 0.5;
using Losses = std::vector<std::vector<double>>;

at::Tensor numbers(int64_t count, double factor) {
  return at::sin(at::arange(count, at::kDouble) * factor).to(at::kFloat);
}

StagePtr make_layer(int layer) {
  const at::Tensor weight = (numbers(kWidth * kWidth, 0.7 + layer) * 0.4)
                                .reshape({kWidth, kWidth})
                                .set_requires_grad(true);
  return make_stage(
      TensorsFunction([weight](const Tensors& in) {
        return Tensors{at::tanh(at::matmul(in[0], weight))};
      }),
      {{text("layer", layer), weight}});
}

Losses losses_of_pipeline(const std::string& schedule, int stages) {
  Losses losses;
  testing::run_world(testing::Backend::Local, 2, [&](const comm::Group& world) {
    const auto owners =
        sched::map_stages(sched::find_schedule(schedule).map, 2, stages);
    std::vector<Stage> mine;
    for (const int stage : sched::stages_of(owners, world.rank())) {
      // With two stages each has two layers.
      std::vector<StagePtr> layers;
      NamedTensors parameters;
      for (int i = 0; i < kLayers / stages; ++i) {
        layers.push_back(make_layer(stage * (kLayers / stages) + i));
        for (auto& named : layers.back()->parameters())
          parameters.push_back(named);
      }
      mine.push_back(
          {stage,
           make_stage(
               TensorsFunction([layers](const Tensors& in) {
                 Tensors x = in;
                 for (const auto& layer : layers)
                   x = layer->forward(x);
                 return x;
               }),
               parameters)});
    }
    Pipeline pipeline(
        mine,
        world,
        [](const Tensors& out, const Tensors& target) {
          return at::mse_loss(out[0], target[0]);
        },
        {.schedule = schedule, .microbatches = kMicrobatches});
    Batch batch;
    if (owners.front() == world.rank())
      batch.inputs = {numbers(kRows * kWidth, 0.3).reshape({kRows, kWidth})};
    if (owners.back() == world.rank())
      batch.targets = {numbers(kRows * kWidth, 0.9).reshape({kRows, kWidth})};
    for (int step = 0; step < kSteps; ++step) {
      const StepResult result = pipeline.step(batch);
      if (owners.back() == world.rank()) {
        losses.emplace_back();
        for (const at::Tensor& loss : result.losses)
          losses.back().push_back(loss.item<double>());
      }
      const at::NoGradGuard no_grad;
      for (const auto& [name, parameter] : pipeline.parameters()) {
        parameter.sub_(parameter.grad(), kRate);
        parameter.mutable_grad() = at::Tensor();
      }
    }
  });
  return losses;
}

TEST(PipelinePeer, LossesOfFiveStepsAreTorchs) {
  if (const std::string missing = testing::peer_missing({}); !missing.empty())
    GTEST_SKIP() << missing;
  const Losses wanted =
      nlohmann::json::parse(testing::run_peer({PIPELINE_LOSSES})).get<Losses>();
  ASSERT_EQ(wanted.size(), size_t{kSteps});
  EXPECT_LT(wanted.back()[0], wanted.front()[0]);  // it learns
  for (const auto& [schedule, stages] :
       {std::pair{"1F1B", 2}, {"Interleaved1F1B", 4}, {"ZBVZeroBubble", 4}}) {
    const Losses got = losses_of_pipeline(schedule, stages);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t step = 0; step < wanted.size(); ++step)
      for (size_t m = 0; m < wanted[step].size(); ++m)
        EXPECT_NEAR(got[step][m], wanted[step][m], 1e-5 + 1.3e-6 * wanted[step][m])
            << schedule << " step " << step << " microbatch " << m;
  }
}

}  // namespace
}  // namespace trireme::pipe
