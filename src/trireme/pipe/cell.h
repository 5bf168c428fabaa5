// What one stage holds of one microbatch, from its first input to its last gradient.
#pragma once
#include <vector>

#include "trireme/autograd/executor.h"
#include "trireme/pipe/stage_module.h"
#include "trireme/pipe/stamp.h"

namespace trireme::pipe {

/// Filled and emptied by the runtime; empty between steps.
struct Cell {
  /// What came over one edge.
  struct Arrival {
    bool there = false;
    Tensors tensors;
  };
  /// Inputs, by edge in; gradients of outputs, by edge out.
  std::vector<Arrival> inputs;
  std::vector<Arrival> output_gradients;
  /// Which of the whole batch it is, for random numbers.
  SampleRange samples;

  /// How many tensors came by each edge in, so that their gradients find back.
  std::vector<size_t> input_counts;
  /// Where the histories of those inputs begin that want a gradient, and which input
  /// each is.
  std::vector<autograd::NodePtr> leaves;
  std::vector<size_t> leaf_inputs;

  /// What the gradient of the microbatch's loss is, once it is known: on the last stage
  /// at its forward, on the others when gradients come.
  double loss_weight = 0;
  /// Auxiliary losses of this stage, until their backward.
  Tensors auxiliary;

  /// The outputs by edge out until they are sent, and then only their gradient edges:
  /// invalid for an output that needs no gradient.
  std::vector<Tensors> outputs;
  autograd::edge_list roots;

  /// The gradients of the inputs until they are sent.
  Tensors input_gradients;
  /// What is left for W.
  autograd::WeightPass weights;
};

}  // namespace trireme::pipe
