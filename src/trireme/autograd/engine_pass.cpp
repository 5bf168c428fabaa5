#include "trireme/autograd/engine_pass.h"

#include <functional>
#include <utility>

#include <ATen/Functions.h>
#include <c10/util/irange.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "trireme/autograd/call_node.h"
#include "trireme/autograd/executor.h"
#include "trireme/autograd/node_index.h"

namespace trireme::autograd {
namespace {

/// Sums the gradients of some edges.
class EdgeSums final : public GradientSink {
 public:
  explicit EdgeSums(std::span<const Edge> edges) : edges_(edges), sums_(edges.size()) {
    for (const Edge& edge : edges_)
      if (edge.is_valid())
        nodes_.insert(edge.function.get());
  }
  bool wants(const Node* node) const override {
    return nodes_.find(node) != NodeIndex::kNone;
  }
  void take(const Edge& edge, at::Tensor&& gradient) override {
    for (const size_t i : c10::irange(edges_.size()))
      if (edges_[i] == edge)
        return add_gradient(sums_[i], std::move(gradient));
  }
  const variable_list& sums() const { return sums_; }

 private:
  std::span<const Edge> edges_;
  NodeIndex nodes_;
  variable_list sums_;
};

/// Calls a function in backward.
class CallNode : public Node {
 public:
  explicit CallNode(const std::function<void()>& f) : f_(f) {}
  variable_list apply(variable_list&&) override {
    f_();
    return {};
  }

 private:
  const std::function<void()>& f_;
};

/// Nodes ask the engine which of their gradients it needs. Where it was told to compute
/// some only, it would say no to all of a graph that was not there when it began,
/// unless they run in another pass of its own, to which no such thing was told.
void outside_of_engines_plan(const std::function<void()>& f) {
  const auto* plan = torch::autograd::get_current_graph_task_exec_info();
  if (plan == nullptr || plan->empty())
    return f();
  const at::Tensor one = at::ones({1});
  auto node = make_node<CallNode>(f);
  node->add_input_metadata(one);
  torch::autograd::Engine::get_default_engine().execute(
      {Edge(node, 0)}, {one}, false, false, true);
}

}  // namespace

variable_list run_inside_engine(
    Roots roots, const std::vector<NodePtr>& inputs, std::span<const Edge> others) {
  EdgeSums sums(others);
  variable_list gradients;
  outside_of_engines_plan([&] {
    Executor executor;
    gradients = executor.backward(std::move(roots), {.inputs = inputs, .outer = &sums});
  });
  gradients.insert(gradients.end(), sums.sums().begin(), sums.sums().end());
  return gradients;
}

}  // namespace trireme::autograd
