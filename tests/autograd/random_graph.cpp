#include "random_graph.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "logging_hooks.h"
#include "random_ops.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

/// Lets the engine meet undefined gradients, which it does not take as roots.
class Source : public Node {
 public:
  Source(edge_list edges, variable_list gradients)
      : Node(std::move(edges)), gradients_(std::move(gradients)) {}
  variable_list apply(variable_list&&) override { return std::move(gradients_); }

 private:
  variable_list gradients_;
};

at::Tensor tame(const at::Tensor& tensor) {
  return tensor.abs().max().item<double>() > 20 ? tensor * 0.05 : tensor;
}

void build(RandomGraph& graph, RandomNumbers& numbers, HookLog& hooks) {
  variable_list pool = graph.inputs;
  pool.push_back(graph.weights[0].slice(0, 0, 4));
  const size_t steps = 8 + numbers.below(40);
  for (size_t i = 0; i < steps; ++i) {
    const OpArguments arguments{
        pool[numbers.below(pool.size())],
        pool[numbers.below(pool.size())],
        graph.weights,
        numbers};
    const size_t kind = numbers.below(op_kinds());
    ++graph.used[kind];
    pool.push_back(tame(random_ops()[kind](arguments)));
    if (const uint32_t hook = numbers.below(10); pool.back().requires_grad())
      hooks.add_to_tensor(hook, pool.back(), graph.retained);
  }
  const size_t outputs = 1 + numbers.below(6);
  variable_list ends;
  for (size_t i = 0; i < outputs; ++i)
    ends.push_back(
        pool[pool.size() - 1 - numbers.below(std::min<size_t>(pool.size(), 10))]);
  if (numbers.below(3) == 0)  // a leaf as it is
    ends.push_back(graph.weights[numbers.below(graph.weights.size())]);
  if (numbers.below(5) == 0)
    ends.push_back(graph.inputs[0]);
  for (const at::Tensor& end : ends)
    if (end.requires_grad()) {
      graph.roots.push_back(gradient_edge(end));
      graph.gradients.push_back(numbers.normal(end.sizes(), end.scalar_type()));
    }
}

}  // namespace

size_t op_kinds() {
  return random_ops().size();
}

RandomGraph::RandomGraph(const GraphOptions& options) : used(op_kinds()) {
  RandomNumbers numbers(options.seed);
  HookLog hooks(options.log);
  weights = random_weights(numbers);
  for (size_t i = 0; i < 1 + options.seed % 3; ++i)
    inputs.push_back(numbers.normal({4, 6}).set_requires_grad(true));
  for (const variable_list* leaves : {&weights, &inputs})
    for (const at::Tensor& leaf : *leaves)
      hooks.add_to_leaf(numbers.below(8), leaf, held);
  build(*this, numbers, hooks);
  for (at::Tensor& gradient : gradients)
    if (options.undefined_roots && numbers.below(4) == 0)
      gradient = at::Tensor();
}

variable_list RandomGraph::grads() const {
  variable_list all;
  for (const variable_list* list : {&weights, &inputs, &retained})
    for (const at::Tensor& tensor : *list)
      all.push_back(tensor.grad());
  return all;
}

::testing::AssertionResult same_gradients(
    const variable_list& got, const variable_list& wanted) {
  using ::testing::AssertionFailure;
  if (got.size() != wanted.size())
    return AssertionFailure() << got.size() << " gradients, not " << wanted.size();
  for (size_t i = 0; i < got.size(); ++i) {
    const at::Tensor &a = got[i], &b = wanted[i];
    if (a.defined() != b.defined())
      return AssertionFailure()
             << "number " << i << " is " << (a.defined() ? "defined" : "undefined");
    if (!a.defined())
      continue;
    if (a.requires_grad() || a.layout() != b.layout())
      return AssertionFailure() << "number " << i << " has a history or another layout";
    if (a.layout() == at::kStrided && a.strides() != b.strides())
      return AssertionFailure() << "number " << i << " has strides " << a.strides()
                                << ", not " << b.strides();
    const bool sparse = a.is_sparse();
    if (sparse && !a._indices().equal(b._indices()))
      return AssertionFailure() << "number " << i << " has other indices";
    if (const auto result =
            testing::same(sparse ? a._values() : a, sparse ? b._values() : b);
        !result)
      return AssertionFailure() << "number " << i << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

void run_engine(
    const edge_list& roots, const variable_list& gradients, bool keep_graph) {
  const at::Tensor one = at::ones({1});
  auto source = make_node<Source>(edge_list(roots), variable_list(gradients));
  source->add_input_metadata(one);
  torch::autograd::Engine::get_default_engine().execute(
      {Edge(source, 0)}, {one}, keep_graph, false, true);
}

variable_list engine_gradients(
    const edge_list& roots,
    const variable_list& gradients,
    const variable_list& leaves) {
  const at::Tensor one = at::ones({1});
  auto source = make_node<Source>(edge_list(roots), variable_list(gradients));
  source->add_input_metadata(one);
  edge_list ends;
  for (const at::Tensor& leaf : leaves)
    ends.push_back(gradient_edge(leaf));
  return torch::autograd::Engine::get_default_engine().execute(
      {Edge(source, 0)}, {one}, false, false, false, ends);
}

std::vector<NodePtr> nodes_of(const variable_list& leaves) {
  std::vector<NodePtr> nodes;
  for (const at::Tensor& leaf : leaves)
    nodes.push_back(gradient_edge(leaf).function);
  return nodes;
}

}  // namespace trireme::autograd
