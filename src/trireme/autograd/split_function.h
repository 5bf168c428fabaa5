// Operations that bring both halves of their backward, and nodes that stay whole.
#pragma once
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// The two halves of a backward. Each gets the gradients of the outputs, undefined ones
/// included, and gives one gradient for each of its tensors.
struct SplitBackward {
  /// Of the inputs; called in I, or in a fused backward.
  std::function<variable_list(const variable_list& gradients)> of_inputs;
  /// Of the weights; called in W, or in a fused backward.
  std::function<variable_list(const variable_list& gradients)> of_weights;
  std::string name = "trireme::SplitFunction";
};

/// Gives tensors that were computed without a graph a backward of one's own: a kernel
/// that is not torch's, or work for weights that can wait.
///
///     at::Tensor y;
///     {
///       const at::NoGradGuard no_grad;
///       y = x.mm(w);
///     }
///     return split_function({y}, {x}, {w}, {
///         .of_inputs = [w](const auto& g) { return variable_list{g[0].mm(w.t())}; },
///         .of_weights = [x](const auto& g) { return variable_list{x.t().mm(g[0])};
///         }})[0];
///
/// Schedules with I and W call each half in its place, all others both at once, torch's
/// engine too; hooks of weights, and whoever reduces their gradients, see what they
/// would of any other operation. The functions run without grad mode, and are let go of
/// after backward; they must not hold the outputs.
variable_list split_function(
    variable_list outputs,
    const variable_list& inputs,
    const variable_list& weights,
    SplitBackward backward);

/// Keeps the node that `output` comes from whole: in a split backward it is called
/// once, in I, and what it gives to weights waits for W. For a backward of one's own
/// that has side effects, or that computes everything whatever is asked of it.
void run_whole(const at::Tensor& output);
void run_whole(Node& node);

}  // namespace trireme::autograd
