// Batch normalisation with the statistics of all ranks, and its derivative.
#pragma once
#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"
#include "trireme/dp/batch_statistics.h"

namespace trireme::dp {

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
