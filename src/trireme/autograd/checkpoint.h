// Blocks that keep their inputs only, and are computed again for backward.
#pragma once
#include <functional>

#include <ATen/core/Tensor.h>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// What is computed: some tensors from some others. Runs once in forward, and once more
/// for each backward; what it refers to must be there until then.
using CheckpointBlock = std::function<variable_list(const variable_list&)>;

struct CheckpointOptions {
  /// Lets torch's own generator of this machine's CPU draw the same numbers again. Off,
  /// since that generator is one for the whole process: while a rank sets it back,
  /// others draw from it, and then nobody's numbers are what they were. dropout() needs
  /// it not.
  bool preserve_generator = false;
};

/// Computes a block, keeps nothing of it but its inputs, and computes it again when its
/// gradients are needed.
///
///     y = checkpoint([&](const at::Tensor& x) { return layer->forward(x); }, x);
///
/// Parameters and other tensors that the block uses need not be named, and no input
/// need require a gradient: forward runs with a graph, looks where it ends, at leaves
/// and at what was computed before, and lets go of it again. These ends become
/// neighbours of the block's node, so that their gradients are summed and their hooks
/// called just as without a checkpoint, bit for bit, in a fused pass and in both halves
/// of a split one: I computes the block again, and its graph stays for W. Torch's
/// engine runs it too.
///
/// Only inputs are watched: whether another tensor that the block uses has changed in
/// between is not noticed. Inputs and outputs may be undefined or have no gradient.
/// What a block changes besides (running means) it changes twice. The second run sees
/// the first one's autocast and other settings of its thread, and its random context.
variable_list checkpoint(
    CheckpointBlock block,
    const variable_list& inputs,
    const CheckpointOptions& options = {});

/// The same for one tensor.
at::Tensor checkpoint(
    std::function<at::Tensor(const at::Tensor&)> block,
    const at::Tensor& input,
    const CheckpointOptions& options = {});

}  // namespace trireme::autograd
