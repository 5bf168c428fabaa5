// Mean and variance of each channel over the batches of all ranks, and batch
// normalisation with them, with its derivative.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"

namespace trireme::dp {

/// What a batch of shape (N, C, …) is like, channel by channel. Tensors of C float64
/// numbers on the CPU, the same bits on all ranks that computed them together.
struct BatchStatistics {
  at::Tensor mean;
  /// Divided by the count, not by one less.
  at::Tensor variance;
  /// How many values each channel has; 0 if all ranks are without samples.
  int64_t count = 0;
};

/// The statistics of what all ranks of the group have together, as if it were one
/// batch. One all_gather; none for a group of one, or no group. A rank may have no
/// samples.
///
///     const BatchStatistics all = batch_statistics(x, world);
///
/// Each rank computes its own mean and the sum of squared distances from it, and these
/// are merged in float64. Nowhere is a squared mean taken from a mean square, which
/// loses the spread of values that are far from zero.
BatchStatistics batch_statistics(const at::Tensor& x, const comm::Group& group);

/// The type that tensors of a type are normalised in: float32 for float16 and bfloat16,
/// else their own.
at::ScalarType compute_type(at::ScalarType type);
/// x in that type, dense and without its history.
at::Tensor to_compute_type(const at::Tensor& x);

/// What a batch is normalised with.
struct NormalizeOptions {
  /// One number a channel, or undefined: 1 and 0.
  at::Tensor weight;
  at::Tensor bias;
  double eps = 1e-5;
  /// The ranks that the statistics are from.
  comm::Group group;
};

/// (x - mean) / sqrt(variance + eps) * weight + bias, with the statistics that
/// batch_statistics() has computed of this x.
///
///     y = normalize(x, batch_statistics(x, world), {.weight = w, .group = world});
///
/// Backward knows that the statistics depend on all ranks' x: it takes one all_reduce,
/// if x has a gradient, so all ranks must run it, those without samples too. The
/// gradients of weight and bias are those of this rank's samples; who trains with
/// several ranks sums them with the others. NotSupported for second derivatives.
at::Tensor normalize(
    const at::Tensor& x,
    const BatchStatistics& statistics,
    const NormalizeOptions& options);

}  // namespace trireme::dp
