#include "trireme/autograd/checkpoint.h"

#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>
#include <c10/util/irange.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/checkpoint_node.h"
#include "trireme/autograd/graph_ends.h"
#include "trireme/autograd/saved_surroundings.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

/// What the graph of a block ends at: its inputs (an invalid edge for each that gets no
/// gradient), and whatever else it uses.
edge_list edges_of(
    const variable_list& inputs,
    const variable_list& leaves,
    const variable_list& outputs,
    const GraphMark& start) {
  edge_list own, edges(inputs.size());
  for (const at::Tensor& leaf : leaves)
    own.push_back(needs_gradient(leaf) ? gradient_edge(leaf) : Edge());
  for (const Edge& end : graph_ends(outputs, start))
    if (const auto found = std::find(own.begin(), own.end(), end); found == own.end())
      edges.push_back(end);
    else
      edges[found - own.begin()] = gradient_edge(inputs[found - own.begin()]);
  return edges;
}

}  // namespace

variable_list checkpoint(
    CheckpointBlock block,
    const variable_list& inputs,
    const CheckpointOptions& options) {
  if (!c10::GradMode::is_enabled())
    return block(inputs);
  SavedSurroundings surroundings(options.preserve_generator);
  const GraphMark start;
  variable_list leaves, outputs;
  for (const at::Tensor& input : inputs)
    leaves.push_back(stand_in(input, needs_gradient(input)));
  {
    const WithoutCastCache casts;
    outputs = block(leaves);
  }
  std::vector<bool> differentiable;
  for (const at::Tensor& output : outputs)
    differentiable.push_back(needs_gradient(output));
  edge_list edges = edges_of(inputs, leaves, outputs, start);
  const auto node = make_node<CheckpointNode>(
      std::move(edges),
      std::move(block),
      inputs,
      std::move(surroundings),
      std::move(differentiable));
  for (at::Tensor& output : outputs)
    if (needs_gradient(output)) {
      output = output.detach();
      torch::autograd::create_gradient_edge(output, node);
    }
  return outputs;
}

at::Tensor checkpoint(
    std::function<at::Tensor(const at::Tensor&)> block,
    const at::Tensor& input,
    const CheckpointOptions& options) {
  const auto several = [block = std::move(block)](const variable_list& inputs) {
    return variable_list{block(inputs[0])};
  };
  return checkpoint(CheckpointBlock(several), {input}, options)[0];
}

}  // namespace trireme::autograd
