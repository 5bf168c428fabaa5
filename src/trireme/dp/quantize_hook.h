// A hook that sends gradients as bytes, 512 at a time between their least and their
// greatest.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "trireme/dp/comm_hook.h"

namespace trireme::dp {

/// How gradients are sent as bytes.
struct QuantizeOptions {
  /// Add what rounding took away to the next round's gradients. Costs a float32 a
  /// parameter; kept by parameter, so that buckets may change.
  bool error_feedback = false;
};

/// Sends a byte for each number, with a least value and a step for every 512 of them.
/// It takes the place of the reduction: hooks after it are not run.
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

/// How many numbers share a least one and a step.
inline constexpr size_t kQuantizeChunk = 512;

/// Bytes for so many numbers, which must be whole chunks: a byte a number, and eight a
/// chunk for where it begins and how far its steps are apart.
constexpr size_t quantized_bytes(size_t numbers) {
  return numbers + numbers / kQuantizeChunk * 2 * sizeof(float);
}

/// Writes numbers as bytes. The code of x is (x - least) / step, rounded, where a step
/// is a 255th of (greatest - least): what comes back differs from x by half a step at
/// most, and by the rounding of float32. Chunks of equal numbers come back exactly;
/// those with NaN, infinity or a range beyond float32 come back as NaN.
///
///     std::vector<uint8_t> bytes(quantized_bytes(512));
///     quantize(numbers, bytes);
void quantize(std::span<const float> numbers, std::span<uint8_t> bytes);

/// Reads them back: replaces `numbers`, or adds to them. The same bytes give the same
/// bits everywhere.
void dequantize(std::span<const uint8_t> bytes, std::span<float> numbers);
void dequantize_add(std::span<const uint8_t> bytes, std::span<float> numbers);

}  // namespace trireme::dp
