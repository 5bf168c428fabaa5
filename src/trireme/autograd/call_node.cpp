#include "trireme/autograd/call_node.h"

#include <exception>
#include <string>

#include <ATen/CachedTensorUtils.h>
#include <ATen/Functions.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>

#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

/// Whether nobody else can see the memory of this tensor.
bool is_exclusive(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !at::isTensorSubclassLike(tensor) &&
         !tensor._is_zerotensor() && !tensor.is_nested() &&
         tensor.is_non_overlapping_and_dense() &&
         at::caching::adjusted_use_count(tensor) == 1 && tensor.has_storage() &&
         tensor.storage().use_count() == 1;
}

/// What torch's engine does in anomaly mode: the node's forward is shown, and it is an
/// error.
void check_for_nan(Node& node, const variable_list& outputs) {
  if (!torch::autograd::AnomalyMode::should_check_nan())
    return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined())
      continue;
    const at::Tensor values =
        outputs[i].is_sparse() ? outputs[i]._values() : outputs[i];
    if (!values.isnan().any().item<bool>())
      continue;
    node.metadata()->print_stack(node.name());
    throw InvalidArgument(text(
        "[autograd] expected gradients without NaN in anomaly mode, got NaN from ",
        node.name(),
        " in number ",
        i,
        "; look at the operation that it is the backward of"));
  }
}

}  // namespace

void add_gradient(at::Tensor& sum, at::Tensor&& gradient) {
  if (!sum.defined())
    sum = std::move(gradient);
  else if (sum.is_sparse() || sum.is_sparse_csr())
    // A sparse tensor cannot take up a dense one.
    sum = is_exclusive(gradient) ? gradient.add_(sum) : gradient + sum;
  else if (is_exclusive(sum) && !at::isTensorSubclassLike(gradient))
    sum.add_(gradient);
  else
    sum = sum + gradient;
}

void call_tensor_hooks(Node& node, variable_list& gradients) {
  for (const auto& hook : node.tensor_pre_hooks())
    gradients = (*hook)(gradients);
  for (const auto& [output, hook] : node.retains_grad_hooks())
    gradients = (*hook)(gradients);
}

void call_pre_hooks(Node& node, variable_list& gradients) {
  call_tensor_hooks(node, gradients);
  for (const auto& hook : node.pre_hooks())
    gradients = (*hook)(gradients);
}

void check_gradients(
    const edge_list& edges, variable_list& gradients, const Node* from) {
  torch::autograd::validate_outputs(
      edges, gradients, [from](const std::string& message) {
        return text("[autograd] ", from ? from->name() : "the roots", ": ", message);
      });
}

variable_list call_node(Node& node, variable_list gradients, bool keep_graph) {
  if (!keep_graph)
    node.will_release_variables();
  variable_list outputs;
  if (node.post_hooks().empty()) {
    outputs = node(std::move(gradients));
    check_gradients(node.next_edges(), outputs, &node);
  } else {
    outputs = node(variable_list(gradients));
    check_gradients(node.next_edges(), outputs, &node);
    for (const auto& hook : node.post_hooks())
      outputs = (*hook)(outputs, gradients);
    if (outputs.size() != node.next_edges().size())
      throw InvalidArgument(text(
          "[autograd] expected a hook to keep ",
          node.next_edges().size(),
          " gradients, got ",
          outputs.size(),
          "; return as many as it was given"));
  }
  if (!keep_graph)
    node.release_variables();
  if (torch::autograd::AnomalyMode::is_enabled()) [[unlikely]]
    check_for_nan(node, outputs);
  return outputs;
}

void rethrow_from(const Node& node) {
  try {
    throw;
  } catch (c10::Error& error) {
    error.add_context(text("[autograd] in the backward of ", node.name()));
    throw;
  } catch (const Error&) {
    throw;  // says itself where it came from
  } catch (const std::exception& error) {
    std::throw_with_nested(
        Error(text("[autograd] in the backward of ", node.name(), ": ", error.what())));
  }
}

void accumulate(
    torch::autograd::AccumulateGrad& node,
    const at::Tensor& gradient,
    GradientStore& store) {
  const at::Tensor& leaf = node.variable;
  if (gradient.defined() && leaf.requires_grad() && leaf.grad_fn())
    throw InvalidArgument(
        "[autograd] expected a leaf, got a tensor that an in-place operation has moved "
        "into the graph; change leaves under a NoGradGuard only");
  if (gradient.defined() && leaf.requires_grad())
    store.accumulate(leaf, gradient, 1);
  if (!store.holds_back(leaf))
    call_post_accumulate_hooks(leaf, store);
}

void call_post_accumulate_hooks(const at::Tensor& leaf, const GradientStore& store) {
  const auto& after = torch::autograd::impl::post_acc_grad_hooks(leaf);
  if (!after)
    return;
  if (!store.is_grad_field())
    throw NotSupported(
        "[autograd] expected a pass that fills .grad for a post-accumulate hook, got "
        "one that puts gradients elsewhere; use a hook on the tensor instead");
  (*after)(leaf);
}

}  // namespace trireme::autograd
