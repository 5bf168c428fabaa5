#include "trireme/rpc/tensor_record.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::rpc {
namespace {

/// How many elements sizes say; refuses what no number can count.
std::int64_t count_elements(at::IntArrayRef sizes) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0)
      refuse_packed("sizes of a tensor", text("a negative one, ", size));
    empty = empty || size == 0;
    // Without zeros: the strides of an empty tensor must not overflow either.
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product))
      refuse_packed("sizes of a tensor", text("more elements than 2^63, ", sizes));
  }
  return empty ? 0 : product;
}

/// Whether strides place the elements side by side, without gaps or overlaps.
bool are_dense_strides(
    at::IntArrayRef sizes, at::IntArrayRef strides, std::int64_t numel) {
  c10::SmallVector<std::size_t, 6> order;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] < 0 || strides[i] > numel)
      return false;
    if (sizes[i] != 1)
      order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return strides[a] < strides[b];
  });
  std::int64_t step = 1;
  for (const std::size_t dim : order) {
    if (strides[dim] != step)
      return false;
    step *= sizes[dim];
  }
  return true;
}

TensorDims read_dims(net::ByteReader& head, std::size_t count) {
  TensorDims dims(count);
  for (std::int64_t& dim : dims)
    dim = head.i64();
  return dims;
}

}  // namespace

void refuse_packed(const std::string& expected, const std::string& got) {
  throw InvalidArgument(text(
      "[rpc] expected ",
      expected,
      " in a message, got ",
      got,
      "; the bytes are damaged, or of another version"));
}

TensorRecord read_tensor_record(net::ByteReader& head, int allowed_flags) {
  TensorRecord record{.flags = head.u8()};
  if ((record.flags & ~allowed_flags) != 0)
    refuse_packed("known flags of a tensor", text(record.flags));
  if (record.flags == 0)
    return record;
  const int excluded = (record.flags & kIsSparse) != 0 ? kHasStrides : kIsCoalesced;
  if ((record.flags & kIsDefined) == 0 || (record.flags & excluded) != 0)
    refuse_packed("flags of a tensor", text(record.flags));
  const int dtype = head.u8();
  const std::size_t count = head.u8();
  if (!is_packed_dtype(dtype))
    refuse_packed("a known dtype", text("number ", dtype));
  if (count > kMostTensorDims)
    refuse_packed(text("at most ", kMostTensorDims, " dims"), text(count));
  record.dtype = static_cast<c10::ScalarType>(dtype);
  const bool differentiable =
      c10::isFloatingType(record.dtype) || c10::isComplexType(record.dtype);
  if ((record.flags & kRequiresGrad) != 0 && !differentiable)
    refuse_packed("a dtype that can require gradients", c10::toString(record.dtype));
  record.sizes = read_dims(head, count);
  record.numel = count_elements(record.sizes);
  return record;
}

TensorDims read_tensor_strides(net::ByteReader& head, const TensorRecord& record) {
  if ((record.flags & kHasStrides) == 0)
    return {};
  TensorDims strides = read_dims(head, record.sizes.size());
  if (record.numel == 0 || !are_dense_strides(record.sizes, strides, record.numel))
    refuse_packed(
        text("strides without gaps for sizes ", at::IntArrayRef(record.sizes)),
        text(at::IntArrayRef(strides)));
  return strides;
}

}  // namespace trireme::rpc
