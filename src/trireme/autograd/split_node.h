// A node that splits its own backward.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "trireme/autograd/gradient_store.h"
#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// The rest of a backward that a SplitNode has put aside. Gives what the node owes to
/// its edges towards weights, one gradient an edge, as its backward would; nothing at
/// all if everybody has got his share by other ways.
using WeightWork = std::function<variable_list(GradientStore&)>;

/// A node that splits its own backward, as a recomputed block does: the graph inside it
/// is not there before it runs. split_function() makes one of two functions.
///
///     class Block : public SplitNode {
///       variable_list whole_pass(variable_list gradients) override;
///       variable_list input_pass(variable_list gradients, WeightWork& later) override;
///     };
///
/// What input_pass() gives to edges that lead to weights only is handed on in W, after
/// what `later` gives there.
class SplitNode : public Node {
 public:
  using Node::Node;
  /// The next run is an input pass, and leaves the rest in `later`. Otherwise, and
  /// under torch's engine, it is a whole one. `to_inputs` says which edges lead to an
  /// input of the pass.
  void split_next_run(WeightWork& later, std::vector<bool> to_inputs) {
    later_ = &later;
    to_inputs_ = std::move(to_inputs);
  }

 protected:
  virtual variable_list whole_pass(variable_list gradients) = 0;
  virtual variable_list input_pass(variable_list gradients, WeightWork& later) = 0;
  variable_list apply(variable_list&& gradients) final {
    if (WeightWork* later = std::exchange(later_, nullptr))
      return input_pass(std::move(gradients), *later);
    return whole_pass(std::move(gradients));
  }
  /// In input_pass(): whether the gradient of this edge is wanted now.
  bool leads_to_input(size_t edge) const { return to_inputs_[edge]; }

 private:
  WeightWork* later_ = nullptr;
  std::vector<bool> to_inputs_;
};

}  // namespace trireme::autograd
