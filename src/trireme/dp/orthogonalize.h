// Vectors made orthogonal, to the same bits on every rank.
#pragma once
#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

namespace trireme::dp {

/// What takes the place of row `row` if it is zero, not finite, or depends on those
/// before it. Gets a vector to fill.
using RefillRow = std::function<void(const at::Tensor& row, int64_t index)>;

/// Makes the rows of a contiguous matrix, float32 or float64, orthogonal and of length
/// 1, by Gram-Schmidt, twice for each row. Plain loops with a fixed order of sums: how
/// many threads a rank has makes no difference. `epsilon` is added to the length that
/// rows are divided by. Rows without a direction of their own become zero unless
/// `refill` has others.
///
///     orthogonalize(matrix, 0);   // matrix.mm(matrix.t()) is the identity now
void orthogonalize(
    const at::Tensor& rows, double epsilon, const RefillRow& refill = nullptr);

/// Fills a vector with numbers from -1 to 1 that follow from the seed and the three
/// numbers of a stream alone.
struct StreamId {
  uint64_t seed = 0;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
};
void fill_uniform(const at::Tensor& vector, const StreamId& stream);

}  // namespace trireme::dp
