// Small whole numbers that ride in a sum of floating numbers, exact in every dtype.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::dp {

/// How many elements a count takes; it may go up to 2 to that power.
inline constexpr int64_t kCountElements = 48;

/// Writes flags, one an element: 0 or 1.
void write_flags(const at::Tensor& riders, std::span<const uint8_t> flags);

/// Reads how many ranks had each flag set, from a sum or, with `ranks`, from a mean.
/// bfloat16 is exact up to 256 ranks; beyond, a count may be off, but never be zero by
/// mistake.
std::vector<int64_t> read_counts(const at::Tensor& riders, int ranks_of_mean = 1);

/// Writes a count bit by bit, an element each: sums of bits are small, where a sum of
/// counts would be rounded.
void append_bits(std::vector<uint8_t>& flags, int64_t count);
/// The sum of the counts, from how often each of their bits was set.
int64_t sum_of_bits(std::span<const int64_t> bits);

}  // namespace trireme::dp
