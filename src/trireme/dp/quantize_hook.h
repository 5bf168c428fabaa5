// A hook that sends gradients as bytes.
#pragma once
#include <memory>

#include "trireme/dp/comm_hook.h"

namespace trireme::dp {

/// How gradients are sent as bytes.
struct QuantizeOptions {
  /// Add what rounding took away to the next round's gradients. Costs a float32 a
  /// parameter; kept by parameter, so that buckets may change.
  bool error_feedback = false;
};

/// Sends a byte for each number, with a least value and a step for every 512 of them.
/// It takes the place of the reduction: hooks behind it are not run.
///
///     {.hooks = {dp::make_quantize_hook({.error_feedback = true})}}
///
/// Every rank owns one part of the bucket. It gets that part from all others as bytes,
/// reduces it in float32 in the order of the ranks, and sends the result to all as
/// bytes again. So a rank sends 2 bytes a gradient, a quarter of what float32 takes,
/// however many ranks there are: if everybody sent everything to everybody, that would
/// be a byte for each of them. All ranks read the same bytes, and so get the same bits.
///
/// For a mean, the error of an element is at most (A + B) / 510, beside the rounding of
/// float32: A is the mean over the ranks of greatest - least in the element's chunk of
/// 512, B the same of the chunk's result. (For a sum: the sum over the ranks.) Gaps
/// between gradients in a bucket, and its end, count as zeros. A chunk with NaN or
/// infinity on one rank becomes NaN on all.
///
/// Other dtypes go through float32. A group of one rank has nothing to send and keeps
/// its gradients.
std::shared_ptr<CommHook> make_quantize_hook(const QuantizeOptions& options = {});

}  // namespace trireme::dp
