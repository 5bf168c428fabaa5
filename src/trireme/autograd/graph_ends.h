// Looks where a graph ends.
#pragma once
#include <cstdint>
#include <functional>

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

/// Whether the graph ends at a node that is no leaf: whoever has made it takes the
/// gradients further, to another worker for one.
bool goes_on_elsewhere(const Node& node);

/// Calls `visit` with every node of the graph of `outputs` that was made after `start`,
/// each once.
void for_each_node(
    const variable_list& outputs,
    const GraphMark& start,
    const std::function<void(Node&)>& visit);

/// The edges where the part of the graph of `outputs` ends that was made after `start`:
/// to leaves and to nodes from before, each once, in the order in which they are met.
edge_list graph_ends(const variable_list& outputs, const GraphMark& start);

}  // namespace trireme::autograd
