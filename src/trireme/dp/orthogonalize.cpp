#include "trireme/dp/orthogonalize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/autograd/philox.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

/// One partial sum a lane: the compiler can use vectors, and the order is fixed.
constexpr int64_t kLanes = 16;

template <class T>
double dot(const T* a, const T* b, int64_t length) {
  T sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k)
      sums[k] += a[i + k] * b[i + k];
  double sum = 0;
  for (const T s : sums)
    sum += static_cast<double>(s);
  for (; i < length; ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Takes from row `i` what lies along those before it. False if nothing to speak of is
/// left.
template <class T>
bool project(T* rows, int64_t i, int64_t length, double epsilon) {
  T* row = rows + i * length;
  const double before = std::sqrt(dot(row, row, length));
  // Once leaves rounding errors that grow with the number of rows; twice is enough.
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t j = 0; j < i; ++j) {
      const T* other = rows + j * length;
      const T along = static_cast<T>(dot(other, row, length));
      for (int64_t k = 0; k < length; ++k)
        row[k] -= along * other[k];
    }
  const double after = std::sqrt(dot(row, row, length));
  const double least = 16 * static_cast<double>(std::numeric_limits<T>::epsilon());
  if (!std::isfinite(after) || !(after > least * before))
    return false;
  const T scale = static_cast<T>(1 / (after + epsilon));
  for (int64_t k = 0; k < length; ++k)
    row[k] *= scale;
  return std::isfinite(scale);
}

template <class T>
void orthogonalize_rows(
    const at::Tensor& matrix, double epsilon, const RefillRow& refill) {
  T* rows = matrix.mutable_data_ptr<T>();
  const int64_t length = matrix.size(1);
  for (int64_t i = 0; i < matrix.size(0); ++i) {
    if (project(rows, i, length, epsilon))
      continue;
    if (refill) {
      refill(matrix.select(0, i), i);
      if (project(rows, i, length, epsilon))
        continue;
    }
    std::fill_n(rows + i * length, length, T{0});
  }
}

template <class T>
void fill_numbers(const at::Tensor& vector, const StreamId& stream) {
  T* numbers = vector.mutable_data_ptr<T>();
  const autograd::PhiloxKey key{
      static_cast<uint32_t>(stream.seed), static_cast<uint32_t>(stream.seed >> 32)};
  for (int64_t i = 0; i < vector.numel(); i += 4) {
    const autograd::PhiloxCounter words = autograd::philox(
        {static_cast<uint32_t>(i / 4), stream.a, stream.b, stream.c}, key);
    for (int64_t k = i; k < std::min(i + 4, vector.numel()); ++k)
      numbers[k] =
          static_cast<T>(static_cast<int32_t>(words[static_cast<size_t>(k - i)])) *
          static_cast<T>(1.0 / 2147483648.0);
  }
}

}  // namespace

void orthogonalize(const at::Tensor& rows, double epsilon, const RefillRow& refill) {
  TRIREME_ASSERT(rows.dim() == 2 && rows.is_contiguous());
  if (rows.scalar_type() == at::kDouble)
    orthogonalize_rows<double>(rows, epsilon, refill);
  else
    orthogonalize_rows<float>(rows, epsilon, refill);
}

void fill_uniform(const at::Tensor& vector, const StreamId& stream) {
  TRIREME_ASSERT(vector.is_contiguous());
  if (vector.scalar_type() == at::kDouble)
    fill_numbers<double>(vector, stream);
  else
    fill_numbers<float>(vector, stream);
}

}  // namespace trireme::dp
