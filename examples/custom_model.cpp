// A model of one's own: its layers are registered under a model_type, planned without a
// rank, built stage by stage and trained in a pipeline of two ranks. It sorts: tokens
// in, the same tokens in order out.
//
//   $ build/release/examples/example_custom_model
//   17828 parameters in 4 layers, 2 on each rank
//   step 0: loss 2.87…
//   …
//   step 60: loss 1.14…
#include <exception>
#include <iostream>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "trireme/comm/init.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/custom_plan.h"
#include "trireme/model/registry.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/pipeline.h"

using namespace trireme;

namespace {

constexpr int kTokens = 16, kLength = 6, kWidth = 32;

// Any module with forward(Tensor) is a layer. This one mixes the positions.
struct MixerImpl : torch::nn::Module {
  MixerImpl()
      : positions(register_module("positions", torch::nn::Linear(kLength, kLength))),
        wide(register_module("wide", torch::nn::Linear(kWidth, 4 * kWidth))),
        narrow(register_module("narrow", torch::nn::Linear(4 * kWidth, kWidth))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor mixed = x + positions(x.transpose(1, 2)).transpose(1, 2);
    return mixed + narrow(at::gelu(wide(mixed)));
  }
  torch::nn::Linear positions, wide, narrow;
};

model::ModelPlan plan_sorter(const std::string& config) {
  const auto mixer = [](const model::BuildOptions&) {
    return pipe::layer("", std::make_shared<MixerImpl>());
  };
  return model::plan_of_layers(
      {.type = "sorter",
       .config_json = config,
       .vocab_size = kTokens,
       .max_positions = kLength,
       .layers = {
           {"embed",
            [](auto&) {
              return pipe::layer("", torch::nn::Embedding(kTokens, kWidth));
            }},
           {"mixer.0", mixer, {.is_block = true}},
           {"mixer.1", mixer, {.is_block = true}},
           {"head", [](auto&) {
              return pipe::layer("", torch::nn::Linear(kWidth, kTokens));
            }}}});
}

at::Tensor loss(const pipe::Tensors& outputs, const pipe::Tensors& targets) {
  return at::cross_entropy_loss(outputs[0].flatten(0, 1), targets[0].flatten());
}

void train(const comm::Group& world) {
  // Every rank plans the whole model, and builds its own part of it.
  const auto plan = model::plan_model(R"({"model_type": "sorter"})");
  const std::vector<sched::LayerRange> ranges{{0, 2}, {2, 4}};
  const int rank = world.rank();
  const auto layers =
      model::build_stages(plan, {ranges[static_cast<size_t>(rank)]}, {.seed = 1})[0];
  if (rank == 0)
    std::cout << plan.count_parameters() << " parameters in " << plan.layers.size()
              << " layers, " << layers.size() << " on each rank\n";
  pipe::Pipeline pipeline(
      {{rank, pipe::make_stage(layers)}},
      world,
      loss,
      {.schedule = "ZB-H1", .microbatches = 4, .tied = tied_places(plan, ranges)});

  for (int step = 0; step <= 60; ++step) {
    const at::Tensor tokens = at::randint(
        0, kTokens, {64, kLength}, at::detail::createCPUGenerator(step), at::kLong);
    pipe::Batch batch;
    if (rank == 0)
      batch.inputs = {tokens};
    else
      batch.targets = {std::get<0>(tokens.sort(1))};
    const pipe::StepResult result = pipeline.step(batch);
    if (rank == 1 && step % 20 == 0)
      std::cout << "step " << step << ": loss "
                << at::stack(result.losses).mean().item<float>() << "\n";
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : pipeline.parameters()) {
      parameter.sub_(parameter.grad(), 0.5);
      parameter.mutable_grad() = at::Tensor();
    }
  }
}

}  // namespace

int main() try {
  model::register_model("sorter", plan_sorter);
  comm::run_local(2, train);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
