// A pass of ours for a node that torch's engine runs.
#pragma once
#include <span>
#include <vector>

#include "trireme/autograd/node.h"
#include "trireme/autograd/pass.h"

namespace trireme::autograd {

/// The gradients of some inputs and then of some other edges, to leaves or nodes of the
/// engine's own graph, for a node that torch's engine has called: it hands them on, and
/// so the others' hooks are left to it.
variable_list run_inside_engine(
    Roots roots, const std::vector<NodePtr>& inputs, std::span<const Edge> others);

}  // namespace trireme::autograd
