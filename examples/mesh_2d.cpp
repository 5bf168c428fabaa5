// Two pipelines of two ranks side by side: pipeline and data parallel on one mesh. Each
// pipeline trains on its half of the batch; a stage's gradients are reduced over the
// ranks that have the same stage, while the other stages still work.
//
//   $ build/release/examples/example_mesh_2d
//   step 0: loss 1.0…, gradient norm 0.…
//   …
//   both pipelines have the same weights
#include <cstdlib>
#include <exception>
#include <iostream>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/comm/mesh.h"
#include "trireme/dp/clip_grad_norm.h"
#include "trireme/dp/stage_sync.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/pipeline.h"

using namespace trireme;

namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kRows = 32;

at::Tensor make_weight(int stage) {
  // Not from torch's generator: ranks that are threads share it.
  return at::arange(kWidth * kWidth, at::kFloat)
      .add(stage)
      .mul(0.7)
      .sin()
      .div(4)
      .view({kWidth, kWidth})
      .set_requires_grad(true);
}

pipe::StagePtr make_stage(int stage, const at::Tensor& weight) {
  return pipe::make_stage(
      pipe::TensorsFunction([weight](const pipe::Tensors& in) {
        return pipe::Tensors{at::tanh(at::matmul(in[0], weight))};
      }),
      {{"layer" + std::to_string(stage) + ".weight", weight}});
}

at::Tensor loss(const pipe::Tensors& outputs, const pipe::Tensors& targets) {
  return at::mse_loss(outputs[0], targets[0]);
}

/// The mean over both pipelines, on all ranks.
float mean_loss(const comm::Mesh& mesh, const pipe::StepResult& result) {
  at::Tensor sum =
      result.losses.empty() ? at::zeros({}) : at::stack(result.losses).mean();
  comm::all_reduce(mesh.group(), sum);
  return sum.item<float>() / static_cast<float>(mesh.size("dp"));
}

void train(const comm::Group& world) {
  const comm::Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
  const int stage = mesh.coordinate("pp");
  const at::Tensor weight = make_weight(stage);
  const std::vector<pipe::Stage> stages{{stage, make_stage(stage, weight)}};
  const auto sync = std::make_shared<dp::StageSync>(
      pipe::stage_parameters<dp::StageParameters>(stages), mesh["dp"]);
  pipe::Pipeline pipeline(
      stages, mesh["pp"], loss, {.schedule = "1F1B", .microbatches = 4, .sync = sync});

  // Each pipeline has its own rows; its first rank takes the inputs, its last the
  // targets.
  const at::Tensor rows =
      at::arange(2 * kRows * kWidth, at::kFloat).sin().view({2 * kRows, kWidth});
  const at::Tensor mine = rows.narrow(0, mesh.coordinate("dp") * kRows, kRows);
  for (int step = 0; step < 3; ++step) {
    const pipe::StepResult result = pipeline.step({mine}, {mine.flip(1)});
    const double norm = dp::clip_grad_norm(mesh, dp::clipped(*sync), {.max_norm = 0.5});
    const float mean = mean_loss(mesh, result);
    if (world.rank() == 0)
      std::cout << "step " << step << ": loss " << mean << ", gradient norm " << norm
                << "\n";
    const at::NoGradGuard no_grad;
    weight.sub_(weight.grad(), 0.5);
    weight.mutable_grad() = at::Tensor();
  }
  at::Tensor first = weight.detach().clone();
  comm::broadcast(mesh["dp"], first, 0);
  if (!at::equal(first, weight))
    throw Error("the pipelines have different weights");
  comm::barrier(world);
  if (world.rank() == 0)
    std::cout << "both pipelines have the same weights\n";
}

}  // namespace

int main() try {
  comm::run_local(4, train);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
