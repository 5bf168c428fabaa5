// What each layer of a model costs, measured.
#pragma once
#include <vector>

#include "trireme/pipe/layers.h"
#include "trireme/sched/cost_file.h"

namespace trireme::pipe {

struct MeasureOptions {
  /// Runs of each layer; the median counts.
  int rounds = 5;
  /// Runs before, which do not count.
  int warmup = 1;
};

/// Runs the layers one after the other on `example_inputs` (one microbatch), and each
/// several times, as if it were a stage: seconds for its forward, for its backward, and
/// for the two halves of that; bytes that its forward keeps, and of its parameters and
/// buffers. Inputs of the model have a gradient only if they require it. Gradients,
/// buffers and torch's random numbers are afterwards as they were.
///
///     const auto costs = measure_layers(model, {tokens});
std::vector<sched::LayerCosts> measure_layers(
    const LayerList& layers,
    const Tensors& example_inputs,
    const MeasureOptions& options = {});

}  // namespace trireme::pipe
