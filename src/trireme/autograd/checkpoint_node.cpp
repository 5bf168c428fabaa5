#include "trireme/autograd/checkpoint_node.h"

#include <memory>
#include <span>
#include <utility>

#include <c10/util/irange.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/engine_pass.h"
#include "trireme/autograd/executor.h"
#include "trireme/autograd/node.h"
#include "trireme/core/error.h"

namespace trireme::autograd {

using torch::autograd::impl::gradient_edge;

at::Tensor stand_in(const at::Tensor& input, bool needs_gradient) {
  return input.defined() ? input.detach().set_requires_grad(needs_gradient) : input;
}

CheckpointNode::CheckpointNode(
    edge_list edges,
    CheckpointBlock block,
    const variable_list& inputs,
    SavedSurroundings surroundings,
    std::vector<bool> differentiable)
    : SplitNode(std::move(edges)),
      block_(std::move(block)),
      surroundings_(std::move(surroundings)),
      differentiable_(std::move(differentiable)) {
  for (const at::Tensor& input : inputs)
    inputs_.emplace_back(input, false);
}

void CheckpointNode::release_variables() {
  inputs_.clear();
  block_ = nullptr;
}

variable_list CheckpointNode::whole_pass(variable_list gradients) {
  Graph graph = compute_again(std::move(gradients));
  Executor* const outer = Executor::current();
  if (outer == nullptr || outer->running_node() != this)
    return in_places(run_inside_engine(
        std::move(graph.roots),
        graph.inputs,
        std::span<const Edge>(next_edges()).subspan(inputs_.size())));
  Executor inner;
  return in_places(inner.backward(
      std::move(graph.roots),
      {.inputs = graph.inputs, .store = &outer->store(), .outer = outer}));
}

variable_list CheckpointNode::input_pass(variable_list gradients, WeightWork& later) {
  Graph graph = compute_again(std::move(gradients));
  const auto weights = std::make_shared<WeightRest>();
  Executor* const outer = Executor::current();
  Executor inner;
  // What the block has used of the inputs without naming them is the outer pass's.
  const variable_list of_inputs = inner.input_pass(
      std::move(graph.roots),
      {.inputs = graph.inputs, .outer = outer, .counts = outer->counts()},
      *weights);
  later = [weights](GradientStore& store) {
    Executor second;
    second.weight_pass(
        std::move(*weights), {.store = &store, .outer = Executor::current()});
    return variable_list();
  };
  return in_places(of_inputs);
}

/// Puts gradients where their edges are: those of inputs first, then those of all else
/// that the block uses, unless they have them already, or get them later.
variable_list CheckpointNode::in_places(const variable_list& gradients) const {
  variable_list outputs(num_outputs());
  auto next = gradients.begin();
  for (size_t i = 0; i < outputs.size() && next != gradients.end(); ++i)
    if (should_compute_output(i))
      outputs[i] = *next++;
  return outputs;
}

CheckpointNode::Graph CheckpointNode::compute_again(variable_list gradients) const {
  const variable_list inputs = unpack_inputs();
  const SavedSurroundings::Scope scope(surroundings_);
  Graph graph;
  for (const at::Tensor& input : inputs)
    if (needs_gradient(input))
      graph.inputs.push_back(gradient_edge(input).function);
  const variable_list outputs = block_(inputs);
  check_outputs(outputs);
  size_t next = 0;
  for (const at::Tensor& output : outputs) {
    if (!needs_gradient(output))
      continue;
    // An undefined gradient is that of an output which nobody has used.
    if (at::Tensor& gradient = gradients[next++]; gradient.defined()) {
      graph.roots.edges.push_back(gradient_edge(output));
      graph.roots.gradients.push_back(std::move(gradient));
    }
  }
  return graph;
}

variable_list CheckpointNode::unpack_inputs() const {
  if (!block_)
    throw InvalidArgument(
        "[autograd] expected one backward through a checkpoint, got a second one; keep "
        "the graph in the first");
  variable_list inputs;
  for (const size_t i : c10::irange(inputs_.size()))
    inputs.push_back(stand_in(inputs_[i].unpack(), should_compute_output(i)));
  return inputs;
}

void CheckpointNode::check_outputs(const variable_list& outputs) const {
  bool same = outputs.size() == differentiable_.size();
  for (size_t i = 0; same && i < outputs.size(); ++i)
    same = needs_gradient(outputs[i]) == differentiable_[i];
  if (!same)
    throw InvalidArgument(
        "[autograd] expected a checkpointed block to give the same outputs again, got "
        "others; make it depend on nothing that changes between forward and backward");
}

}  // namespace trireme::autograd
