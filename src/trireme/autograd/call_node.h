// Calls one node of a graph with its hooks, as torch's engine would.
#pragma once
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "trireme/autograd/gradient_store.h"
#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// Adds a gradient to those that came before, in place if nobody else sees that memory.
void add_gradient(at::Tensor& sum, at::Tensor&& gradient);

/// Calls the hooks of the tensors that a node's gradients belong to, which may replace
/// them, and then those that retain gradients.
void call_tensor_hooks(Node& node, variable_list& gradients);
/// Calls all hooks that see a node's gradients before it runs: those of tensors, then
/// those of the node.
void call_pre_hooks(Node& node, variable_list& gradients);

/// Checks gradients against the edges that they go to (number, shape, dtype, device)
/// and sums over what was broadcast; errors name `from`, who gave them.
void check_gradients(
    const edge_list& edges, variable_list& gradients, const Node* from = nullptr);

/// Runs the node, checks what it gives (in anomaly mode also for NaN), and calls its
/// post-hooks. Frees its saved tensors unless the graph is kept.
variable_list call_node(Node& node, variable_list gradients, bool keep_graph);

/// Throws the exception that is being handled once more, with the node's name: an error
/// of torch's gets it as context and keeps its type, an error of ours says itself where
/// it came from, any other is nested in a trireme::Error.
[[noreturn]] void rethrow_from(const Node& node);

/// Adds a leaf's gradient to the store and calls its post-accumulate hooks, unless the
/// store holds the gradient back. NotSupported if there are hooks and the store is not
/// `.grad`. As in torch's engine, hooks are called also where there is no gradient, or
/// the leaf wants none any more.
void accumulate(
    torch::autograd::AccumulateGrad& node,
    const at::Tensor& gradient,
    GradientStore& store);

/// The latter half of it, for a store that has held a gradient back until now.
void call_post_accumulate_hooks(const at::Tensor& leaf, const GradientStore& store);

}  // namespace trireme::autograd
