// Graphs with many kinds of operations, made from a number, for comparing ways of
// running backward.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// How many kinds of operations there are.
size_t op_kinds();

struct GraphOptions {
  uint32_t seed = 0;
  /// Puts hooks of all kinds on some tensors and nodes; they write here.
  std::vector<std::string>* log = nullptr;
  /// Leaves some gradients of roots undefined.
  bool undefined_roots = false;
};

/// How many graphs the executor is compared with torch's engine on.
inline constexpr uint32_t kGraphs = 500;
inline GraphOptions graph_options(uint32_t seed) {
  return {.seed = seed, .undefined_roots = seed % 3 == 0};
}

/// The same options give the same graph and the same numbers, however often it is made.
struct RandomGraph {
  explicit RandomGraph(const GraphOptions& options);

  variable_list weights;
  variable_list inputs;
  /// What needs a gradient of what came out, and gradients for it.
  edge_list roots;
  variable_list gradients;
  /// How often each kind of operation was used.
  std::vector<int> used;
  /// Tensors that keep their gradient; and nodes with hooks, which their leaves do not
  /// hold.
  variable_list retained;
  std::vector<NodePtr> held;

  /// The gradients of weights and inputs, then the retained ones.
  variable_list grads() const;
};

/// Passes when two lists of gradients are the same in everything: bits, dtype, layout,
/// strides; and none has a history.
::testing::AssertionResult same_gradients(
    const variable_list& got, const variable_list& wanted);

/// Torch's own engine; also where gradients are undefined.
void run_engine(
    const edge_list& roots, const variable_list& gradients, bool keep_graph);
/// Its gradients of these leaves, which it stores nowhere.
variable_list engine_gradients(
    const edge_list& roots,
    const variable_list& gradients,
    const variable_list& leaves);

/// The nodes of the gradient edges of leaves.
std::vector<NodePtr> nodes_of(const variable_list& leaves);

}  // namespace trireme::autograd
