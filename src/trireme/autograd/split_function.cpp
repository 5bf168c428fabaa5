#include "trireme/autograd/split_function.h"

#include <memory>
#include <utility>

#include <c10/core/GradMode.h>
#include <c10/util/irange.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/checkpoint_node.h"
#include "trireme/autograd/split_node.h"
#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

using Half = std::function<variable_list(const variable_list& gradients)>;

class SplitFunctionNode : public SplitNode {
 public:
  SplitFunctionNode(edge_list edges, size_t inputs, SplitBackward backward)
      : SplitNode(std::move(edges)), inputs_(inputs), backward_(std::move(backward)) {}
  std::string name() const override { return backward_.name; }
  void release_variables() override {
    backward_.of_inputs = nullptr;
    backward_.of_weights = nullptr;
  }

 private:
  variable_list whole_pass(variable_list gradients) override {
    variable_list results = of_inputs(gradients);
    const variable_list more = of_weights(backward_.of_weights, gradients);
    for (const size_t i : c10::irange(inputs_, num_outputs()))
      results[i] = more[i];
    return results;
  }
  variable_list input_pass(variable_list gradients, WeightWork& later) override {
    // A weight that was computed from an input cannot wait.
    for (const size_t i : c10::irange(inputs_, num_outputs()))
      if (leads_to_input(i))
        return whole_pass(std::move(gradients));
    variable_list results = of_inputs(gradients);
    later = [this, half = backward_.of_weights, kept = std::move(gradients)](
                GradientStore&) { return of_weights(half, kept); };
    return results;
  }

  variable_list of_inputs(const variable_list& gradients) const {
    variable_list results = call(backward_.of_inputs, gradients, inputs_);
    results.resize(num_outputs());
    return results;
  }
  variable_list of_weights(const Half& half, const variable_list& gradients) const {
    variable_list results = call(half, gradients, num_outputs() - inputs_);
    results.insert(results.begin(), inputs_, at::Tensor());
    return results;
  }
  variable_list call(
      const Half& half, const variable_list& gradients, size_t count) const {
    const c10::AutoGradMode no_grad(false);
    if (count == 0)
      return {};
    if (!half)
      throw InvalidArgument(text(
          "[autograd] expected one backward through ",
          name(),
          ", got a second one; keep the graph in the first"));
    variable_list results = half(gradients);
    if (results.size() != count)
      throw InvalidArgument(text(
          "[autograd] expected ",
          count,
          " gradients from a half of the backward of ",
          name(),
          ", got ",
          results.size(),
          "; give one for each of its tensors, undefined where there is none"));
    return results;
  }

  size_t inputs_;
  SplitBackward backward_;
};

/// Changes nothing: a node with a post-hook is not split.
class StayWhole final : public torch::autograd::FunctionPostHook {
 public:
  variable_list operator()(
      const variable_list& outputs, const variable_list& /*inputs*/) override {
    return outputs;
  }
};

void check(const variable_list& outputs, const SplitBackward& backward) {
  if (!backward.of_inputs || !backward.of_weights)
    throw InvalidArgument(text(
        "[autograd] expected both halves of the backward of ",
        backward.name,
        ", got one; give of_inputs and of_weights"));
  for (const at::Tensor& output : outputs)
    if (needs_gradient(output))
      throw InvalidArgument(text(
          "[autograd] expected outputs of ",
          backward.name,
          " without a graph, got one of ",
          output.grad_fn() ? output.grad_fn()->name() : "a leaf",
          "; compute them under a NoGradGuard"));
}

}  // namespace

variable_list split_function(
    variable_list outputs,
    const variable_list& inputs,
    const variable_list& weights,
    SplitBackward backward) {
  check(outputs, backward);
  edge_list edges;
  bool any = false;
  for (const variable_list* tensors : {&inputs, &weights})
    for (const at::Tensor& tensor : *tensors) {
      any |= needs_gradient(tensor);
      edges.push_back(
          needs_gradient(tensor) ? torch::autograd::impl::gradient_edge(tensor)
                                 : Edge());
    }
  if (!any || !c10::GradMode::is_enabled())
    return outputs;
  const auto node = make_node<SplitFunctionNode>(
      std::move(edges), inputs.size(), std::move(backward));
  for (at::Tensor& output : outputs)
    if (output.defined())
      torch::autograd::create_gradient_edge(output, node);
  return outputs;
}

void run_whole(Node& node) {
  for (const auto& hook : node.post_hooks())
    if (dynamic_cast<const StayWhole*>(hook.get()) != nullptr)
      return;
  node.add_post_hook(std::make_unique<StayWhole>());
}

void run_whole(const at::Tensor& output) {
  if (!output.defined() || !output.grad_fn())
    throw InvalidArgument(
        "[autograd] expected a tensor with a history, whose node is to stay whole, got "
        "one without; pass the output of an operation in grad mode");
  run_whole(*output.grad_fn());
}

}  // namespace trireme::autograd
