// A node that splits its own backward.
#pragma once
#include <functional>
#include <utility>

#include "trireme/autograd/gradient_store.h"
#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// The rest of a backward that a SplitNode has put aside.
using WeightWork = std::function<void(GradientStore&)>;

/// A node that splits its own backward, as a recomputed block does: the graph inside it
/// is not there before it runs.
///
///     class Block : public SplitNode {
///       variable_list whole_pass(variable_list gradients) override;
///       variable_list input_pass(variable_list gradients, WeightWork& later) override;
///     };
///
/// What input_pass() gives to edges that lead to weights only is handed on in W, after
/// `later` was called there.
class SplitNode : public Node {
 public:
  using Node::Node;
  /// The next run is an input pass, and leaves the rest in `later`. Otherwise, and
  /// under torch's engine, it is a whole one.
  void split_next_run(WeightWork& later) { later_ = &later; }

 protected:
  virtual variable_list whole_pass(variable_list gradients) = 0;
  virtual variable_list input_pass(variable_list gradients, WeightWork& later) = 0;
  variable_list apply(variable_list&& gradients) final {
    if (WeightWork* later = std::exchange(later_, nullptr))
      return input_pass(std::move(gradients), *later);
    return whole_pass(std::move(gradients));
  }

 private:
  WeightWork* later_ = nullptr;
};

}  // namespace trireme::autograd
