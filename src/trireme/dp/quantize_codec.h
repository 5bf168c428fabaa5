// Numbers as bytes: 512 at a time, between their least and their greatest.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::dp {

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
