#include "trireme/autograd/pass.h"

#include <c10/util/irange.h>

#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

void check_root(size_t i, const Edge& edge, const at::Tensor& gradient) {
  if (!edge.function || edge.input_nr >= edge.function->num_inputs())
    throw InvalidArgument(text(
        "[autograd] expected roots that need a gradient, got number ",
        i,
        ", which has no place in the graph; leave it out"));
  const auto& output = edge.function->input_metadata(edge.input_nr);
  if (gradient.defined() && !output.is_same_shape(gradient))
    throw InvalidArgument(text(
        "[autograd] expected a gradient of shape ",
        output.shape_as_dim_vector(),
        " for root ",
        i,
        ", got ",
        gradient.sizes(),
        "; give it that of its output"));
}

}  // namespace

void check_roots(const edge_list& edges, const variable_list& gradients) {
  if (edges.size() != gradients.size())
    throw InvalidArgument(text(
        "[autograd] expected a gradient for each of ",
        edges.size(),
        " roots, got ",
        gradients.size(),
        "; give undefined ones where there are none"));
  for (const size_t i : c10::irange(edges.size()))
    check_root(i, edges[i], gradients[i]);
}

}  // namespace trireme::autograd
