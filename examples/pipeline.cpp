// A model in four stages on two ranks, trained under the DualPipeV schedule. Here the
// ranks are threads; with comm::init() in place of run_local() they would be processes.
//
//   $ build/release/examples/example_pipeline
//   step 0: loss 1.37…
//   …
//   rank 0 made 4 forwards of each of its 2 stages a step
#include "trireme/pipe/pipeline.h"

#include <exception>
#include <iostream>

#include <ATen/ATen.h>

#include "trireme/comm/init.h"
#include "trireme/pipe/module_stage.h"

using namespace trireme;

namespace {

constexpr int kWidth = 16;
constexpr int kStages = 4;

// A stage is any function of tensors, with the parameters that it uses. The name is the
// parameter's in the whole model.
pipe::Stage make_stage(int index) {
  at::manual_seed(index);
  const at::Tensor weight = (at::randn({kWidth, kWidth}) / 4).set_requires_grad(true);
  return {
      index,
      pipe::make_stage(
          pipe::TensorsFunction([weight](const pipe::Tensors& in) {
            return pipe::Tensors{at::tanh(at::matmul(in[0], weight))};
          }),
          {{"layer" + std::to_string(index) + ".weight", weight}})};
}

at::Tensor loss(const pipe::Tensors& outputs, const pipe::Tensors& targets) {
  return at::mse_loss(outputs[0], targets[0]);
}

void train(const comm::Group& world) {
  const auto owners = sched::map_stages(sched::StageMap::V, world.size(), kStages);
  std::vector<pipe::Stage> mine;
  for (const int stage : sched::stages_of(owners, world.rank()))
    mine.push_back(make_stage(stage));
  pipe::Pipeline pipeline(
      mine, world, loss, {.schedule = "DualPipeV", .microbatches = 4});

  // Every rank gives the whole batch; the first stage's takes the inputs, the last
  // stage's the targets: in a V that is rank 0 twice.
  const at::Tensor inputs =
      at::arange(32 * kWidth, at::kFloat).sin().view({32, kWidth});
  const at::Tensor targets = at::zeros({32, kWidth});
  for (int step = 0; step < 3; ++step) {
    const pipe::StepResult result = pipeline.step({inputs}, {targets});
    if (world.rank() == 0)
      std::cout << "step " << step << ": loss "
                << at::stack(result.losses).mean().item<float>() << "\n";
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : pipeline.parameters()) {
      parameter.sub_(parameter.grad(), 0.5);
      parameter.mutable_grad() = at::Tensor();
    }
  }
  int forwards = 0;
  for (const pipe::ActionTime& one : pipeline.timeline().actions)
    sched::for_each_half(one.action, [&](const sched::Action& half) {
      forwards += half.kind() == sched::ActionKind::Forward;
    });
  if (world.rank() == 0)
    std::cout << "rank 0 made " << forwards / 2
              << " forwards of each of its 2 stages a "
              << "step\n";
}

}  // namespace

int main() try {
  comm::run_local(2, train);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
