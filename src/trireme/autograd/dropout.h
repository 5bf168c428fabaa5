// Dropout whose masks do not depend on how a batch is laid out over ranks.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace trireme::autograd {

/// Sets elements to 0 with probability p and scales the others by 1 / (1 - p), while
/// training; else gives x as it is.
///
///     RandomScope scope({.seed = 7, .step = step, .first_sample = first});
///     y = dropout(x, 0.1, layer_key("block.3.mlp"), is_training());
///
/// The mask is drawn from the streams of this thread's RandomScope: a batch of 8 gets
/// the same one as 8 microbatches of 1, whoever computes them, and so does a block that
/// is computed again. A layer that is used twice in a step needs a key for each use, or
/// both get the same mask. Saves no mask: backward draws it again. Without a scope it
/// throws InvalidArgument, since any default would draw the same mask in every step.
///
/// The dim `sample_dim` of x must be the samples, or the samples and, within each, its
/// positions: [B, T, D] and [B * T, D] are both right, [T, B, D] with a sample_dim
/// of 1.
at::Tensor dropout(
    const at::Tensor& x,
    double p,
    uint64_t layer,
    bool training,
    int64_t sample_dim = 0);

}  // namespace trireme::autograd
