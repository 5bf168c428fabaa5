// What a rank computes for its stages; the rest of Runtime is in runtime.cpp.
#include <algorithm>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"
#include "trireme/pipe/runtime.h"
#include "trireme/pipe/stamp.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {

using autograd::Executor;
using sched::index;
using torch::autograd::impl::gradient_edge;

namespace {

/// A tensor for another stage: the same memory, without the history.
at::Tensor without_history(const at::Tensor& tensor) {
  if (!tensor.defined())
    return tensor;
  return tensor.detach().set_requires_grad(tensor.requires_grad());
}

/// Where the history of a stage's input begins. A leaf would do as well, but could not
/// be changed in place. The executor takes the gradient and does not call it.
class StageInput : public autograd::Node {
 public:
  using Node::Node;
  std::string name() const override { return "trireme::StageInput"; }
  autograd::variable_list apply(autograd::variable_list&&) override { return {}; }
};

/// The tensor, or another over its memory if somebody else has it, with such a history.
at::Tensor begin_history(at::Tensor tensor) {
  if (tensor.use_count() == 1 && tensor.is_leaf())
    tensor.set_requires_grad(false);
  else
    tensor = tensor.detach();
  torch::autograd::create_gradient_edge(
      tensor, autograd::make_node<StageInput>(autograd::edge_list()));
  return tensor;
}

}  // namespace

void Runtime::forward(int stage, int microbatch) {
  const Tensors inputs = collect_inputs(stage, microbatch);
  const SampleRange samples = held(stage, microbatch).samples;
  const autograd::RandomScope random(autograd::RandomContext{
      .seed = options_.seed,
      .step = static_cast<uint64_t>(data_->random_step),
      .first_sample = static_cast<uint64_t>(samples.first),
      .samples = samples.count});
  Tensors auxiliary;
  const ForwardScope scope(context(stage, microbatch), &auxiliary);
  Tensors outputs = module(stage).forward(inputs);
  if (is_last(stage)) {
    // What it saves by name was for its own layers.
    outputs.resize(outputs.size() - std::min(outputs.size(), links_.saved(stage)));
    finish_last_stage(stage, microbatch, outputs);
    keep_auxiliary(stage, microbatch, std::move(auxiliary));
    return;
  }
  keep_auxiliary(stage, microbatch, std::move(auxiliary));
  if (program_->trains)
    keep_roots(stage, microbatch, outputs);
  share_out(stage, held(stage, microbatch), outputs);
  hand_over_outputs(stage, microbatch);
}

Tensors Runtime::collect_inputs(int stage, int microbatch) {
  Held& here = held(stage, microbatch);
  Tensors inputs;
  if (stage == 0) {
    inputs = data_->inputs[index(microbatch)];
    here.samples = data_->samples[index(microbatch)];
  }
  here.input_counts.clear();
  for (Held::Arrival& arrived : here.inputs) {
    here.input_counts.push_back(arrived.tensors.size());
    for (at::Tensor& tensor : arrived.tensors)
      hand_in(here, std::move(tensor), inputs);
  }
  here.inputs.clear();
  if (const auto& order = links_.skip_order(stage); !order.empty()) {
    const auto skipped = inputs.end() - static_cast<std::ptrdiff_t>(order.size());
    const Tensors by_edge(skipped, inputs.end());
    std::transform(
        order.begin(), order.end(), skipped, [&](size_t i) { return by_edge[i]; });
  }
  if (const auto side = data_->side_inputs.find(stage);
      side != data_->side_inputs.end()) {
    const Tensors& here_alone = side->second[index(microbatch)];
    // What the stage takes by name comes last.
    inputs.insert(
        inputs.end() - static_cast<std::ptrdiff_t>(links_.taken(stage)),
        here_alone.begin(),
        here_alone.end());
  }
  return inputs;
}

ForwardContext Runtime::context(int stage, int microbatch) const {
  return {
      .stage = stage,
      .microbatch = microbatch,
      .microbatches = program_->schedule.microbatches,
      .step = data_->random_step};
}

void Runtime::keep_auxiliary(int stage, int microbatch, Tensors losses) {
  if (losses.empty())
    return;
  auto& sums = data_->auxiliary.at(stage);
  at::Tensor& sum = sums[index(microbatch)];
  for (const at::Tensor& loss : losses) {
    if (program_->trains && !loss.requires_grad())
      throw InvalidArgument(text(
          "[pipe] expected an auxiliary loss that can be differentiated for stage ",
          stage,
          ", microbatch ",
          microbatch,
          ", got one without a gradient; compute it from what is trained, outside of "
          "checkpointed blocks"));
    const at::Tensor value = loss.detach().reshape({});
    sum = sum.defined() ? sum + value : value;
  }
  if (program_->trains)
    held(stage, microbatch).auxiliary = std::move(losses);
}

void Runtime::hand_in(Held& here, at::Tensor tensor, Tensors& inputs) const {
  if (program_->trains && tensor.defined() && tensor.requires_grad()) {
    tensor = begin_history(std::move(tensor));
    here.leaves.push_back(gradient_edge(tensor).function);
    here.leaf_inputs.push_back(inputs.size());
  }
  inputs.push_back(std::move(tensor));
}

/// What each edge takes. Tensors go over by reference where that can be, and a stage
/// may change its inputs in place: no two of them may be one memory.
void Runtime::share_out(int stage, Held& here, const Tensors& outputs) const {
  here.outputs.assign(links_.out(stage).size(), {});
  Tensors given;
  for (const size_t edge : c10::irange(here.outputs.size())) {
    links_.for_each_output(stage, edge, outputs.size(), [&](size_t output) {
      at::Tensor tensor = outputs[output];
      if (tensor.defined() &&
          std::any_of(given.begin(), given.end(), [&](const at::Tensor& other) {
            return other.defined() && other.is_alias_of(tensor);
          }))
        tensor = tensor.detach().clone().set_requires_grad(tensor.requires_grad());
      given.push_back(tensor);
      here.outputs[edge].push_back(std::move(tensor));
    });
  }
}

void Runtime::keep_roots(int stage, int microbatch, const Tensors& outputs) {
  auto& roots = held(stage, microbatch).roots;
  for (const at::Tensor& output : outputs)
    roots.push_back(
        output.defined() && output.requires_grad() ? gradient_edge(output)
                                                   : autograd::Edge());
}

void Runtime::finish_last_stage(int stage, int microbatch, const Tensors& outputs) {
  if (data_->keep_outputs)
    for (const at::Tensor& output : outputs)
      data_->outputs[index(microbatch)].push_back(
          output.defined() ? output.detach() : output);
  if (data_->targets.empty() || !options_.loss)
    return;
  const at::Tensor loss = options_.loss(outputs, data_->targets[index(microbatch)]);
  if (!loss.defined() || loss.numel() != 1)
    throw InvalidArgument(text(
        "[pipe] expected a loss with one element for stage ",
        stage,
        ", microbatch ",
        microbatch,
        ", got ",
        loss.defined() ? text("a tensor of ", loss.numel())
                       : text("an undefined tensor"),
        "; reduce it with mean() or sum()"));
  data_->losses[index(microbatch)] = loss.detach();
  if (!program_->trains)
    return;
  if (!loss.requires_grad())
    throw InvalidArgument(text(
        "[pipe] expected a loss that can be differentiated for stage ",
        stage,
        ", microbatch ",
        microbatch,
        ", got one without a gradient; compute it from the outputs, without detach()"));
  Held& here = held(stage, microbatch);
  here.roots = {gradient_edge(loss)};
  here.loss_weight = data_->loss_weights[index(microbatch)];
  here.output_gradients = {{true, {root_gradient(loss, here.loss_weight)}}};
}

at::Tensor Runtime::root_gradient(const at::Tensor& loss, double weight) {
  if (!root_gradient_.defined() || root_weight_ != weight ||
      root_gradient_.dtype() != loss.dtype() ||
      root_gradient_.sizes() != loss.sizes()) {
    root_gradient_ = at::full(loss.sizes(), weight, loss.detach().options());
    root_weight_ = weight;
  }
  return root_gradient_;
}

/// What stays on this rank goes over by reference.
void Runtime::hand_over_outputs(int stage, int microbatch) {
  Held& here = held(stage, microbatch);
  bool sends = false;
  const auto& edges = links_.out(stage);
  for (const size_t edge : c10::irange(edges.size())) {
    const int to = edges[edge].to;
    if (!is_local(to)) {
      sends = true;
      continue;
    }
    Held& there = held(to, microbatch);
    there.samples = here.samples;
    there.inputs.resize(links_.in(to).size());
    Held::Arrival& place = there.inputs[links_.in_edge(to, stage)];
    place.there = true;
    for (const at::Tensor& output : here.outputs[edge])
      place.tensors.push_back(without_history(output));
  }
  if (!sends)
    here.outputs.clear();
}

autograd::Roots Runtime::take_roots(int stage, int microbatch) {
  Held& here = held(stage, microbatch);
  autograd::Roots roots;
  for (const size_t edge : c10::irange(here.output_gradients.size())) {
    Tensors& gradients = here.output_gradients[edge].tensors;
    size_t i = 0;
    links_.for_each_output(stage, edge, here.roots.size(), [&](size_t output) {
      at::Tensor& gradient = gradients[i++];
      // Nothing came of this output: what led to it is not run at all, as in one
      // process.
      if (!gradient.defined())
        return;
      roots.edges.push_back(here.roots[output]);
      roots.gradients.push_back(std::move(gradient));
    });
  }
  for (const at::Tensor& loss : here.auxiliary) {
    roots.edges.push_back(gradient_edge(loss));
    roots.gradients.push_back(
        at::full(loss.sizes(), here.loss_weight, loss.detach().options()));
  }
  here.auxiliary.clear();
  here.roots.clear();
  here.output_gradients.clear();
  return roots;
}

void Runtime::backward(int stage, int microbatch, Executor& executor) {
  const ForwardScope scope(context(stage, microbatch));
  Held& here = held(stage, microbatch);
  Tensors gradients = executor.backward(
      take_roots(stage, microbatch), {.inputs = here.leaves, .store = store_});
  hand_over_gradients(stage, microbatch, std::move(gradients));
}

void Runtime::input_grad(int stage, int microbatch, Executor& executor) {
  const ForwardScope scope(context(stage, microbatch));
  Held& here = held(stage, microbatch);
  Tensors gradients = executor.input_pass(
      take_roots(stage, microbatch),
      {.inputs = here.leaves, .store = store_, .counts = &splits_[local(stage)]},
      here.weights);
  hand_over_gradients(stage, microbatch, std::move(gradients));
}

void Runtime::weight_grad(int stage, int microbatch, Executor& executor) {
  const ForwardScope scope(context(stage, microbatch));
  executor.weight_pass(
      std::exchange(held(stage, microbatch).weights, autograd::WeightRest()),
      {.store = store_});
}

void Runtime::hand_over_gradients(int stage, int microbatch, Tensors gradients) {
  Held& here = held(stage, microbatch);
  size_t count = 0;
  for (const size_t edge : here.input_counts)
    count += edge;
  here.input_gradients.assign(count, at::Tensor());
  for (const size_t i : c10::irange(gradients.size()))
    here.input_gradients[here.leaf_inputs[i]] = std::move(gradients[i]);
  here.leaves.clear();
  here.leaf_inputs.clear();
  bool sends = false;
  const auto& before = links_.in(stage);
  for (const size_t edge : c10::irange(before.size())) {
    const int to = before[edge];
    if (!is_local(to)) {
      sends = true;
      continue;
    }
    Held& there = held(to, microbatch);
    there.loss_weight = here.loss_weight;
    there.output_gradients.resize(links_.out(to).size());
    there.output_gradients[links_.out_edge(to, stage)] = {
        true, gradients_for(stage, microbatch, edge)};
  }
  if (!sends)
    here.input_gradients.clear();
}

Tensors Runtime::gradients_for(int stage, int microbatch, size_t edge) const {
  const Held& here = held(stage, microbatch);
  size_t first = 0;
  for (const size_t before : c10::irange(edge))
    first += here.input_counts[before];
  const auto begin = here.input_gradients.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(here.input_counts[edge])};
}

}  // namespace trireme::pipe
