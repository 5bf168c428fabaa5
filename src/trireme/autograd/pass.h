// What a backward pass is given, and what its first half leaves for the second.
#pragma once
#include <span>
#include <vector>

#include "trireme/autograd/gradient_store.h"
#include "trireme/autograd/node.h"
#include "trireme/autograd/split_counts.h"
#include "trireme/autograd/split_node.h"

namespace trireme::autograd {

/// Where a pass begins: the gradient edges of outputs, and a gradient for each, which
/// may be undefined.
///
///     Roots roots{{torch::autograd::impl::gradient_edge(loss)}, {at::ones({})}};
struct Roots {
  edge_list edges;
  variable_list gradients;
};

/// InvalidArgument unless there is a gradient for each edge, and each edge has a place
/// in the graph. Stricter than the check between nodes, which would sum over a shape
/// that is too large.
void check_roots(const edge_list& edges, const variable_list& gradients);

/// Takes the gradients of some nodes one by one as they come, hooks not called, instead
/// of the pass that finds them. For a pass inside a pass: what the outer one waits for
/// as well (a weight, or a tensor from outside that a block has used) is added up
/// there, and its hooks fire once.
class GradientSink {
 public:
  /// Whether it takes those of this node.
  virtual bool wants(const Node* node) const = 0;
  virtual void take(const Edge& edge, at::Tensor&& gradient) = 0;

 protected:
  ~GradientSink() = default;
};

/// What a pass is made with.
struct PassOptions {
  /// The leaves whose gradients are returned instead of stored: the nodes of their
  /// gradient edges, each once. Of their hooks only those of the tensor are called.
  std::span<const NodePtr> inputs;
  /// Where the gradients of all other leaves go; never null.
  GradientStore* store = &grad_field();
  /// Leave the graph as it is, for another pass over it.
  bool keep_graph = false;
  /// Comes before the store, and in an input pass counts as an input.
  GradientSink* outer = nullptr;
  /// Counts what an input pass splits, if there is one.
  SplitCounts* counts = nullptr;
};

/// What an input pass leaves for the weight pass: the nodes at the border between the
/// two, with the gradients that came to them. Holds the saved tensors that W needs.
class WeightRest {
 public:
  bool empty() const { return border_.empty() && roots_.edges.empty(); }

 private:
  friend class Executor;
  struct Border {
    NodePtr node;
    /// What came to it, after its hooks; if it has run, what it gave.
    variable_list gradients;
    bool has_run = false;
    /// Of a node that splits itself.
    WeightWork later;
    /// Its edges towards weights, if the graph is kept; else the node has only those.
    edge_list edges;
  };
  /// In the order in which I met them.
  std::vector<Border> border_;
  /// Gradients that go to weights only.
  Roots roots_;
};

}  // namespace trireme::autograd
