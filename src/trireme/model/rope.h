// Turns queries and keys by angles that follow from their positions.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>

#include <ATen/core/Tensor.h>

#include "trireme/model/llama_config.h"

namespace trireme::model {

/// The angle by which one position turns each pair of a head's numbers; fp32,
/// [head_dim / 2].
at::Tensor rope_frequencies(const LlamaConfig& config);

/// Cosines and sines of positions, made once for all layers and grown when longer
/// sequences come. Any thread may ask.
class RopeTable {
 public:
  explicit RopeTable(const LlamaConfig& config) : config_(config) {}
  RopeTable(const RopeTable&) = delete;
  RopeTable& operator=(const RopeTable&) = delete;

  /// [count, 1, head_dim] each. The first half of `sin` has its sign turned, so that
  /// turn() needs no other.
  struct Part {
    at::Tensor cos;
    at::Tensor sin;
  };
  /// Those of positions first, first + 1, …, in the dtype and on the device of `like`.
  Part part(int64_t first, int64_t count, const at::Tensor& like);

 private:
  LlamaConfig config_;
  std::mutex mutex_;
  Part whole_;
};

/// x is [n, t, heads, head_dim].
at::Tensor turn(const at::Tensor& x, const RopeTable::Part& by);

}  // namespace trireme::model
