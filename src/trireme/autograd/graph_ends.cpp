#include "trireme/autograd/graph_ends.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/node_index.h"

namespace trireme::autograd {

GraphMark::GraphMark()
    : sequence(at::sequence_number::peek()),
      thread(at::RecordFunction::currentThreadId()) {}

bool GraphMark::is_before(const Node& node) const {
  return node.thread_id() == thread && node.sequence_nr() >= sequence;
}

namespace {

/// Walks what was made after `start`: calls `inside` with each of its nodes once, and
/// `end` with each edge that leads out of it, and whether its node is new.
template <class Inside, class End>
void walk(
    const variable_list& outputs,
    const GraphMark& start,
    const Inside& inside,
    const End& end) {
  NodeIndex seen;
  std::vector<Node*> open;
  const auto meet = [&](const Edge& edge) {
    Node* node = edge.function.get();
    if (node == nullptr)
      return;
    const bool fresh = seen.insert(node).fresh;
    if (node->num_outputs() == 0 || !start.is_before(*node))
      end(edge, fresh);
    else if (fresh)
      open.push_back(node);
  };
  for (const at::Tensor& output : outputs)
    if (output.defined() && output.requires_grad())
      meet(torch::autograd::impl::gradient_edge(output));
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    inside(*node);
    for (const Edge& edge : std::as_const(*node).next_edges())
      meet(edge);
  }
}

}  // namespace

bool goes_on_elsewhere(const Node& node) {
  return node.num_outputs() == 0 &&
         dynamic_cast<const torch::autograd::AccumulateGrad*>(&node) == nullptr;
}

void for_each_node(
    const variable_list& outputs,
    const GraphMark& start,
    const std::function<void(Node&)>& visit) {
  walk(outputs, start, visit, [](const Edge&, bool) {});
}

edge_list graph_ends(const variable_list& outputs, const GraphMark& start) {
  edge_list ends;
  walk(
      outputs,
      start,
      [](Node&) {},
      [&](const Edge& edge, bool fresh) {
        // A leaf has one input, other ends may have more.
        const bool is_known =
            !fresh && (edge.function->num_inputs() == 1 ||
                       std::find(ends.begin(), ends.end(), edge) != ends.end());
        if (!is_known)
          ends.push_back(edge);
      });
  return ends;
}

}  // namespace trireme::autograd
