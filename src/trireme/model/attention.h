// Causal attention, with or without past positions.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace trireme::model {

struct AttentionOptions {
  /// Of the products of queries and keys.
  double scale = 1;
  /// Of probabilities, in training; drawn for the layer of this key, see
  /// autograd::layer_key(). Then they are computed as a whole, which takes more memory
  /// and time.
  double dropout = 0;
  uint64_t layer = 0;
};

/// Queries [n, heads, t, size]; keys and values [n, heads or a divisor of it, s, size].
/// The queries are those of the last t of s positions, and see none after their own.
/// Gives [n, t, heads * size].
at::Tensor causal_attention(
    const at::Tensor& queries,
    const at::Tensor& keys,
    const at::Tensor& values,
    const AttentionOptions& options);

}  // namespace trireme::model
