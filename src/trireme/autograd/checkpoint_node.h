// The node of a checkpointed block.
#pragma once
#include <string>
#include <vector>

#include <torch/csrc/autograd/saved_variable.h>

#include "trireme/autograd/checkpoint.h"
#include "trireme/autograd/pass.h"
#include "trireme/autograd/saved_surroundings.h"
#include "trireme/autograd/split_node.h"

namespace trireme::autograd {

/// Computes a block again and runs backward over it. Its edges lead to the inputs (an
/// invalid one for each that gets no gradient), and then to what the block uses
/// besides: leaves, and tensors that were computed before. Made by checkpoint().
class CheckpointNode : public SplitNode {
 public:
  /// `differentiable` says which outputs of the block have a gradient.
  CheckpointNode(
      edge_list edges,
      CheckpointBlock block,
      const variable_list& inputs,
      SavedSurroundings surroundings,
      std::vector<bool> differentiable);

  std::string name() const override { return "trireme::Checkpoint"; }
  void release_variables() override;

 private:
  /// The block's graph, which is its own: leaves stand in for its inputs.
  struct Graph {
    Roots roots;
    /// The nodes of the inputs that get a gradient.
    std::vector<NodePtr> inputs;
  };

  variable_list whole_pass(variable_list gradients) override;
  variable_list input_pass(variable_list gradients, WeightWork& later) override;
  Graph compute_again(variable_list gradients) const;
  variable_list unpack_inputs() const;
  void check_outputs(const variable_list& outputs) const;
  variable_list in_places(const variable_list& gradients) const;

  CheckpointBlock block_;
  SavedSurroundings surroundings_;
  std::vector<torch::autograd::SavedVariable> inputs_;
  std::vector<bool> differentiable_;
};

/// A leaf in place of an input, which may be undefined.
at::Tensor stand_in(const at::Tensor& input, bool needs_gradient);

}  // namespace trireme::autograd
