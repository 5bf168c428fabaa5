// The models of `bench pipe`, as bench/peers/pipe.py has them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/pipe/stage_module.h"

namespace trireme::bench {

/// A stack of equal layers and a batch for it.
struct PipeModel {
  /// "block": a transformer block; "linear": a linear layer; "norm": linear, norm and
  /// GELU.
  std::string layer = "block";
  int layers = 8;
  int64_t width = 256;
  int64_t sequence = 128;
  int microbatches = 8;
};

/// One layer: the values are the same on every rank for the same number.
pipe::StagePtr make_layer(const PipeModel& model, int number);

/// The layers [first, last) as one stage.
pipe::StagePtr make_layers(const PipeModel& model, int first, int last);

/// Inputs or targets: a row a microbatch.
at::Tensor make_batch(const PipeModel& model, int seed);

/// The mean of the squared differences.
at::Tensor squared_error(const pipe::Tensors& outputs, const pipe::Tensors& targets);

}  // namespace trireme::bench
