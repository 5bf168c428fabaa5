#include "trireme/autograd/graph_ends.h"

#include <algorithm>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/node_index.h"
#include "trireme/core/error.h"

namespace trireme::autograd {

GraphMark::GraphMark()
    : sequence(at::sequence_number::peek()),
      thread(at::RecordFunction::currentThreadId()) {}

bool GraphMark::is_before(const Node& node) const {
  return node.thread_id() == thread && node.sequence_nr() >= sequence;
}

edge_list graph_ends(const variable_list& outputs, const GraphMark& start) {
  NodeIndex seen;
  std::vector<const Node*> open;
  edge_list ends;
  const auto meet = [&](const Edge& edge) {
    const Node* node = edge.function.get();
    if (node == nullptr)
      return;
    const bool fresh = seen.insert(node).fresh;
    if (node->num_outputs() == 0) {
      // A leaf has one input, other ends may have more.
      const bool is_known =
          !fresh && (node->num_inputs() == 1 ||
                     std::find(ends.begin(), ends.end(), edge) != ends.end());
      if (!is_known)
        ends.push_back(edge);
    } else if (fresh) {
      if (!start.is_before(*node))
        throw InvalidArgument(text(
            "[autograd] expected a block that uses tensors with a history as inputs "
            "only, got one of ",
            node->name(),
            " from before; make it an input"));
      open.push_back(node);
    }
  };
  for (const at::Tensor& output : outputs)
    if (output.defined() && output.requires_grad())
      meet(torch::autograd::impl::gradient_edge(output));
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const Edge& edge : node->next_edges())
      meet(edge);
  }
  return ends;
}

}  // namespace trireme::autograd
