#include "trireme/cli/train_demo.h"

#include <iomanip>
#include <iostream>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <CLI/CLI.hpp>
#include <c10/core/GradMode.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"

namespace trireme::cli {
namespace {

constexpr int64_t kSamples = 256, kInputs = 8, kHidden = 32;

// All tensors one after the other, so that one call serves them all.
at::Tensor flatten(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors)
    flat.push_back(tensor.reshape(-1));
  return at::cat(flat);
}

// The parts of `flat` in the shapes of `tensors`.
std::vector<at::Tensor> unflatten(
    const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
  return parts;
}

// Everybody starts from what rank 0 has drawn.
void share_parameters(const comm::Group& world, std::vector<at::Tensor>& parameters) {
  const c10::NoGradGuard no_grad;
  at::Tensor flat = flatten(parameters);
  comm::broadcast(world, flat, 0);
  const auto parts = unflatten(flat, parameters);
  for (size_t i = 0; i < parameters.size(); ++i)
    parameters[i].copy_(parts[i]);
}

// One step of stochastic gradient descent; gives the loss over the whole batch before
// it.
double step(
    const comm::Group& world,
    std::vector<at::Tensor>& parameters,
    const DemoData& part,
    double learning_rate) {
  at::Tensor loss = demo_loss(parameters, part);
  loss.backward();
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> ours;
  for (at::Tensor& parameter : parameters) {
    ours.push_back(parameter.grad());
    parameter.mutable_grad().reset();
  }
  // The parts are equal, so the mean of their means is that of the batch. The loss
  // rides along.
  ours.push_back(loss.detach());
  at::Tensor flat = flatten(ours);
  comm::all_reduce(world, flat, {.op = comm::ReduceOp::Mean});
  const auto mean = unflatten(flat, ours);
  for (size_t i = 0; i < parameters.size(); ++i)
    parameters[i].sub_(mean[i], learning_rate);
  return mean.back().item<double>();
}

void run_rank(
    const comm::Group& world,
    const TrainDemoOptions& options,
    TrainDemoResult& result) {
  const DemoData all = demo_data();
  const int64_t share = kSamples / world.size();
  const DemoData part{
      .inputs = all.inputs.narrow(0, world.rank() * share, share),
      .targets = all.targets.narrow(0, world.rank() * share, share)};
  auto parameters = demo_parameters(static_cast<uint64_t>(world.rank()));
  share_parameters(world, parameters);
  const bool leads = world.rank() == 0;
  for (int i = 0; i < options.steps; ++i) {
    const double loss = step(world, parameters, part, options.learning_rate);
    if (leads && i == 0)
      result.first_loss = loss;
    if (leads && options.on_step)
      options.on_step(i, loss);
  }
  if (!leads)
    return;
  const c10::NoGradGuard no_grad;
  result.last_loss = demo_loss(parameters, all).item<double>();
  if (options.on_step)
    options.on_step(options.steps, result.last_loss);
  result.parameters = parameters;
}

void print_training() {
  const TrainDemoOptions defaults;
  std::cerr << "trireme: a demo of the comm layer; the trainer will replace it\n";
  std::cout << "training a network 8-32-1 on " << defaults.ranks << " ranks, "
            << kSamples / defaults.ranks << " samples each\n"
            << std::fixed << std::setprecision(5);
  TrainDemoOptions options;
  options.on_step = [](int step, double loss) {
    if (step % 10 == 0)
      std::cout << "step " << std::setw(3) << step << "   loss " << loss << std::endl;
  };
  const TrainDemoResult result = train_demo(options);
  std::cout << "loss " << result.first_loss << " -> " << result.last_loss << "\n";
}

}  // namespace

DemoData demo_data() {
  const at::Generator generator = at::detail::createCPUGenerator(1);
  DemoData data;
  data.inputs = at::randn({kSamples, kInputs}, generator);
  const at::Tensor direction = at::randn({kInputs, 1}, generator) / 3;
  data.targets = at::sin(at::mm(data.inputs, direction));
  return data;
}

std::vector<at::Tensor> demo_parameters(uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed + 100);
  std::vector<at::Tensor> parameters{
      at::randn({kInputs, kHidden}, generator) * 0.3,
      at::zeros({kHidden}),
      at::randn({kHidden, 1}, generator) * 0.2,
      at::zeros({1})};
  for (at::Tensor& parameter : parameters)
    parameter.requires_grad_();
  return parameters;
}

at::Tensor demo_loss(const std::vector<at::Tensor>& parameters, const DemoData& data) {
  const at::Tensor hidden =
      at::tanh(at::addmm(parameters[1], data.inputs, parameters[0]));
  return at::mse_loss(at::addmm(parameters[3], hidden, parameters[2]), data.targets);
}

TrainDemoResult train_demo(const TrainDemoOptions& options) {
  if (options.ranks < 1 || kSamples % options.ranks != 0)
    throw InvalidArgument(text(
        "[cli] wanted a number of ranks that divides ",
        kSamples,
        ", got ",
        options.ranks,
        "; take 1, 2 or 4"));
  TrainDemoResult result;
  comm::run_local(options.ranks, [&](const comm::Group& world) {
    run_rank(world, options, result);
  });
  return result;
}

void add_train(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand(
      "train", "Train a model; for now a demo: a small network on two ranks");
  sub->footer("Example:\n  trireme train");
  sub->callback([&exit_code] {
    print_training();
    exit_code = 0;
  });
}

}  // namespace trireme::cli
