// How a packed tensor is described: what pack_tensors.cpp writes and unpack_tensors.cpp
// reads. In the head stand the number of tensors, and for each of them
//
//   flags, dtype, dims             a byte each; of an undefined one the flags alone
//   sizes                          8 bytes each
//   strides                        8 bytes each, with kHasStrides
//   sparse dims, their tensors     with kSparse: a byte, the indices, the values
//
// A dense tensor that has elements takes the next part, and all of it. The strides
// place its elements side by side, in whatever order.
#pragma once
#include <cstddef>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

namespace trireme::rpc {

inline constexpr std::uint8_t kIsDefined = 1, kRequiresGrad = 2, kHasStrides = 4,
                              kIsSparse = 8, kIsCoalesced = 16;
inline constexpr std::size_t kMostTensorDims = 64;

/// The sizes of a tensor, or its strides.
using TensorDims = c10::SmallVector<std::int64_t, 6>;

/// Whether elements of a dtype mean something without more: not the quantized ones.
/// Takes whatever number came.
inline bool is_packed_dtype(int number) {
  using c10::ScalarType;
  if (number < 0 || number > 127)
    return false;
  switch (static_cast<ScalarType>(number)) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::Half:
    case ScalarType::Float:
    case ScalarType::Double:
    case ScalarType::ComplexHalf:
    case ScalarType::ComplexFloat:
    case ScalarType::ComplexDouble:
    case ScalarType::Bool:
    case ScalarType::BFloat16:
    case ScalarType::Float8_e5m2:
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2fnuz:
    case ScalarType::Float8_e4m3fnuz:
    case ScalarType::Float8_e8m0fnu:
    case ScalarType::UInt16:
    case ScalarType::UInt32:
    case ScalarType::UInt64:
      return true;
    default:
      return false;
  }
}

/// Whether strides are those of a tensor without gaps, its last dim the fastest: then
/// they are not written down.
inline bool are_usual_strides(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0; step *= sizes[i])
    if (strides[i] != step)
      return false;
  return true;
}

}  // namespace trireme::rpc
