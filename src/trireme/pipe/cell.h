// What one stage holds of one microbatch, from its first input to its last gradient.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/autograd/executor.h"
#include "trireme/pipe/stage_module.h"

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
  /// The number of its first sample in the whole batch, for random numbers.
  int64_t first_sample = 0;

  /// How many tensors came by each edge in, so that their gradients find back.
  std::vector<size_t> input_counts;
  /// The leaves among the inputs that want a gradient, and which input each is. They
  /// keep the inputs alive for the backward.
  std::vector<autograd::NodePtr> leaves;
  std::vector<size_t> leaf_inputs;

  /// What the gradient of the microbatch's loss is, once it is known: on the last stage
  /// at its forward, on the others when gradients come.
  double loss_weight = 0;
  /// Auxiliary losses of this stage, until their backward.
  Tensors auxiliary;

  /// The outputs until they are sent, and then only their gradient edges: invalid for
  /// an output that needs no gradient.
  Tensors outputs;
  autograd::edge_list roots;

  /// The gradients of the inputs until they are sent.
  Tensors input_gradients;
  /// What is left for W.
  autograd::WeightPass weights;
  std::function<void()> own_weights;
};

}  // namespace trireme::pipe
