#include "trireme/pipe/measure_layers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"
#include "trireme/core/median.h"

namespace trireme::pipe {
namespace {

using torch::autograd::impl::gradient_edge;

double seconds(const auto& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

// While it lives, the buffers and the random numbers may change; then they are put
// back.
class KeepState {
 public:
  explicit KeepState(const LayerList& layers) : buffers_(buffers(layers)) {
    for (const auto& [name, buffer] : buffers_)
      copies_.push_back(buffer.detach().clone());
    const std::lock_guard lock(generator_.mutex());
    random_ = generator_.get_state();
  }
  ~KeepState() {
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < copies_.size(); ++i)
      buffers_[i].second.copy_(copies_[i]);
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(random_);
  }
  KeepState(const KeepState&) = delete;
  KeepState& operator=(const KeepState&) = delete;

 private:
  NamedTensors buffers_;
  Tensors copies_;
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor random_;
};

// What torch's allocator gives out less what it takes back.
struct AllocationCount : c10::MemoryReportingInfoBase {
  std::atomic<int64_t> bytes{0};
  void reportMemoryUsage(void*, int64_t change, size_t, size_t, c10::Device) override {
    bytes += change;
  }
  bool memoryProfilingEnabled() const override { return true; }
};

// The times of all runs.
struct Samples {
  std::vector<double> forward, backward, input_grad, weight_grad;
};

// One layer with its inputs, as a stage of its own.
class Subject {
 public:
  Subject(const Layer& layer, Tensors inputs)
      : layer_(layer), inputs_(std::move(inputs)) {
    for (const at::Tensor& input : inputs_)
      if (input.defined() && input.requires_grad())
        leaves_.push_back(gradient_edge(input).function);
    for (const auto& [name, tensor] : parameters({layer})) {
      weight_bytes_ += static_cast<double>(tensor.nbytes());
      trains_ = trains_ || tensor.requires_grad();
    }
    for (const auto& [name, tensor] : buffers({layer}))
      weight_bytes_ += static_cast<double>(tensor.nbytes());
  }

  // Its inputs hold what it takes by name.
  Tensors forward() const { return layer_.forward(inputs_); }

  sched::LayerCosts measure(const MeasureOptions& options) {
    for (int round = 0; round < options.warmup; ++round)
      run();
    samples_ = {};
    for (int round = 0; round < options.rounds; ++round)
      run();
    return {
        .name = layer_.name,
        .costs = {
            .forward = median(samples_.forward),
            .input_grad = median(samples_.input_grad),
            .weight_grad = median(samples_.weight_grad),
            .backward = median(samples_.backward),
            .activation_bytes = count_activations(),
            .weight_bytes = weight_bytes_}};
  }

 private:
  void run() {
    Tensors outputs;
    samples_.forward.push_back(seconds([&] { outputs = forward(); }));
    const double fused = time_backward(outputs);
    samples_.backward.push_back(fused);
    if (trains_ && !leaves_.empty()) {
      time_halves(forward());
    } else {
      samples_.input_grad.push_back(trains_ ? 0 : fused);
      samples_.weight_grad.push_back(trains_ ? fused : 0);
    }
  }

  double time_backward(const Tensors& outputs) {
    autograd::Roots roots = roots_of(outputs);
    if (roots.edges.empty())
      return 0;
    return seconds([&] { executor_.backward(std::move(roots), pass()); });
  }

  void time_halves(const Tensors& outputs) {
    autograd::Roots roots = roots_of(outputs);
    autograd::WeightRest weights;
    samples_.input_grad.push_back(seconds([&] {
      if (!roots.edges.empty())
        executor_.input_pass(std::move(roots), pass(), weights);
    }));
    samples_.weight_grad.push_back(seconds([&] {
      if (!weights.empty())
        executor_.weight_pass(std::move(weights), pass());
    }));
  }

  // Gradients are added up from run to run, as from microbatch to microbatch.
  autograd::PassOptions pass() { return {.inputs = leaves_, .store = &gradients_}; }

  static autograd::Roots roots_of(const Tensors& outputs) {
    autograd::Roots roots;
    for (const at::Tensor& output : outputs)
      if (output.defined() && output.requires_grad()) {
        roots.edges.push_back(gradient_edge(output));
        roots.gradients.push_back(at::ones_like(output));
      }
    return roots;
  }

  // What is there after the forward and was not before: outputs and saved tensors.
  double count_activations() const {
    const auto count = std::make_shared<AllocationCount>();
    Tensors outputs;
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
      outputs = forward();
    }
    return static_cast<double>(std::max<int64_t>(count->bytes, 0));
  }

  const Layer& layer_;
  Tensors inputs_;
  std::vector<autograd::NodePtr> leaves_;
  bool trains_ = false;
  double weight_bytes_ = 0;
  Samples samples_;
  autograd::Executor executor_;
  autograd::GradientMap gradients_;
};

// The outputs as the next layer gets them: leaves, as after a message.
Tensors as_inputs(const Tensors& outputs) {
  Tensors inputs;
  for (const at::Tensor& output : outputs)
    inputs.push_back(
        output.defined() ? output.detach().requires_grad_(output.requires_grad())
                         : output);
  return inputs;
}

}  // namespace

std::vector<sched::LayerCosts> measure_layers(
    const LayerList& layers,
    const Tensors& example_inputs,
    const MeasureOptions& options) {
  check_layers(layers);
  check_skips(layers);
  if (options.rounds < 1 || options.warmup < 0)
    throw InvalidArgument(text(
        "[pipe] expected at least 1 round and no less than 0 to warm up, got ",
        options.rounds,
        " and ",
        options.warmup,
        "; change these numbers"));
  const KeepState keep(layers);
  const c10::AutoGradMode with_grad(true);
  std::vector<sched::LayerCosts> costs;
  Tensors inputs = as_inputs(example_inputs);
  NamedSkips skips;
  for (const Layer& each : layers) {
    for (const std::string& name : each.takes)
      inputs.push_back(as_inputs({*skips.find(name)})[0]);
    Subject subject(each, inputs);
    costs.push_back(subject.measure(options));
    inputs = as_inputs(subject.forward());
    for (const Layer::Saved& one : each.saves)
      skips.save(one.name, inputs.at(one.output));
  }
  return costs;
}

}  // namespace trireme::pipe
