// Looks where a graph ends.
#pragma once
#include <cstdint>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// A point in the making of graphs by this thread.
struct GraphMark {
  /// Now.
  GraphMark();
  /// Whether the node was made by this thread, and after.
  bool is_before(const Node& node) const;
  uint64_t sequence;
  uint64_t thread;
};

/// The edges to leaves where the graph of `outputs` ends, each once, in the order in
/// which they are met. InvalidArgument if it holds a node that was made before `start`.
edge_list graph_ends(const variable_list& outputs, const GraphMark& start);

}  // namespace trireme::autograd
