#include <algorithm>
#include <utility>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/rpc/tensor_form.h"
#include "trireme/rpc/values.h"

namespace trireme::rpc {
namespace {

[[noreturn]] void refuse_packed(const std::string& expected, const std::string& got) {
  throw InvalidArgument(text(
      "[rpc] expected ",
      expected,
      " in a message, got ",
      got,
      "; the bytes are damaged, or of another version"));
}

/// What stands before a tensor's elements.
struct TensorRecord {
  int flags = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  TensorDims sizes;
  std::int64_t numel = 0;
};

/// Takes the tensors of a message one after the other.
class TensorUnpacker {
 public:
  TensorUnpacker(
      net::ByteReader& head, std::vector<Part>& parts, const ValueLimits& limits)
      : head_(head), parts_(parts), limits_(limits) {}
  at::Tensor next();
  std::size_t taken() const { return taken_; }

 private:
  TensorRecord record(int allowed_flags);
  TensorDims dims(std::size_t count);
  TensorDims strides(const TensorRecord& record);
  Part part(std::uint64_t bytes, c10::ScalarType dtype);
  at::Tensor dense(const TensorRecord& record);
  at::Tensor sparse(const TensorRecord& record);

  net::ByteReader& head_;
  std::vector<Part>& parts_;
  const ValueLimits& limits_;
  std::size_t taken_ = 0;
};

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

at::TensorOptions options_of(const TensorRecord& record) {
  return at::TensorOptions().dtype(record.dtype);
}

/// The message's memory as a tensor's.
at::Tensor view_of(Part part, const TensorRecord& record, at::IntArrayRef strides) {
  auto let_go = [keep = std::move(part.keep)](void*) {};
  if (strides.empty())
    return at::from_blob(
        part.bytes.data(), record.sizes, std::move(let_go), options_of(record));
  return at::from_blob(
      part.bytes.data(), record.sizes, strides, std::move(let_go), options_of(record));
}

/// Refuses indices that lead elsewhere, and a promise of order that is not kept:
/// whatever reads the tensor later trusts in both.
void check_indices(
    const at::Tensor& indices, at::IntArrayRef sizes, bool must_be_sorted) {
  const auto index = indices.accessor<std::int64_t, 2>();
  for (std::int64_t dim = 0; dim < index.size(0); ++dim)
    for (std::int64_t i = 0; i < index.size(1); ++i)
      if (index[dim][i] < 0 || index[dim][i] >= sizes[static_cast<std::size_t>(dim)])
        refuse_packed(
            text("indices of a sparse tensor below ", sizes), text(index[dim][i]));
  for (std::int64_t i = 1; must_be_sorted && i < index.size(1); ++i) {
    std::int64_t dim = 0;
    while (dim < index.size(0) && index[dim][i - 1] == index[dim][i])
      ++dim;
    if (dim == index.size(0) || index[dim][i - 1] > index[dim][i])
      refuse_packed("the indices of a coalesced tensor in order", "others");
  }
}

TensorDims TensorUnpacker::dims(std::size_t count) {
  TensorDims dims(count);
  for (std::int64_t& dim : dims)
    dim = head_.i64();
  return dims;
}

TensorRecord TensorUnpacker::record(int allowed_flags) {
  TensorRecord record{.flags = head_.u8()};
  if ((record.flags & ~allowed_flags) != 0)
    refuse_packed("known flags of a tensor", text(record.flags));
  if (record.flags == 0)
    return record;
  if ((record.flags & kIsDefined) == 0)
    refuse_packed("flags of a tensor", text(record.flags));
  const int dtype = head_.u8();
  const std::size_t count = head_.u8();
  if (!is_packed_dtype(dtype))
    refuse_packed("a known dtype", text("number ", dtype));
  if (count > kMostTensorDims)
    refuse_packed(text("at most ", kMostTensorDims, " dims"), text(count));
  record.dtype = static_cast<c10::ScalarType>(dtype);
  const bool differentiable =
      c10::isFloatingType(record.dtype) || c10::isComplexType(record.dtype);
  if ((record.flags & kRequiresGrad) != 0 && !differentiable)
    refuse_packed("a dtype that can require gradients", c10::toString(record.dtype));
  record.sizes = dims(count);
  record.numel = count_elements(record.sizes);
  return record;
}

TensorDims TensorUnpacker::strides(const TensorRecord& record) {
  if ((record.flags & kHasStrides) == 0)
    return {};
  TensorDims strides = dims(record.sizes.size());
  if (record.numel == 0 || !are_dense_strides(record.sizes, strides, record.numel))
    refuse_packed(
        text("strides without gaps for sizes ", at::IntArrayRef(record.sizes)),
        text(at::IntArrayRef(strides)));
  return strides;
}

Part TensorUnpacker::part(std::uint64_t bytes, c10::ScalarType dtype) {
  if (taken_ == parts_.size())
    refuse_packed("memory for each tensor", text(parts_.size(), " parts in all"));
  Part part = std::move(parts_[taken_++]);
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
  if (part.bytes.size() != bytes)
    refuse_packed(
        text(bytes, " bytes for a tensor"), text("a part of ", part.bytes.size()));
#endif
  const std::size_t alignment = std::min<std::size_t>(c10::elementSize(dtype), 8);
  if (reinterpret_cast<std::uintptr_t>(part.bytes.data()) % alignment != 0)
    refuse_packed(text("a tensor at a multiple of ", alignment), "another place");
  return part;
}

at::Tensor TensorUnpacker::dense(const TensorRecord& record) {
  const TensorDims placed = strides(record);
  std::uint64_t bytes = c10::elementSize(record.dtype);
  const auto numel = static_cast<std::uint64_t>(record.numel);
  if (__builtin_mul_overflow(bytes, numel, &bytes) || bytes > limits_.tensor_bytes)
    throw InvalidArgument(text(
        "[rpc] expected tensors of at most ",
        limits_.tensor_bytes,
        " bytes, got one of sizes ",
        at::IntArrayRef(record.sizes),
        "; send it in pieces, or raise ValueLimits::tensor_bytes"));
  if (bytes == 0)
    return at::empty(record.sizes, options_of(record));
  return view_of(part(bytes, record.dtype), record, placed);
}

at::Tensor TensorUnpacker::sparse(const TensorRecord& record) {
  const std::size_t sparse_dims = head_.u8();
  if (sparse_dims == 0 || sparse_dims > record.sizes.size())
    refuse_packed(
        text("1 to ", record.sizes.size(), " sparse dims"), text(sparse_dims));
  const TensorRecord places = this->record(kIsDefined | kHasStrides);
  if (places.dtype != c10::kLong || places.sizes.size() != 2 ||
      places.sizes[0] != static_cast<std::int64_t>(sparse_dims))
    refuse_packed(
        text("indices of ", sparse_dims, " dims"), text(at::IntArrayRef(places.sizes)));
  const at::Tensor indices = dense(places);
  const TensorRecord elements = this->record(kIsDefined | kHasStrides);
  TensorDims expected{places.sizes[1]};
  expected.append(record.sizes.begin() + sparse_dims, record.sizes.end());
  if (elements.dtype != record.dtype ||
      at::IntArrayRef(elements.sizes) != at::IntArrayRef(expected))
    refuse_packed(
        text(c10::toString(record.dtype), " values of sizes ", expected),
        text(
            c10::toString(elements.dtype),
            " of sizes ",
            at::IntArrayRef(elements.sizes)));
  const at::Tensor values = dense(elements);
  const bool coalesced = (record.flags & kIsCoalesced) != 0;
  check_indices(indices, record.sizes, coalesced);
  return at::_sparse_coo_tensor_unsafe(
      indices, values, record.sizes, options_of(record), coalesced);
}

at::Tensor TensorUnpacker::next() {
  const TensorRecord record =
      this->record(kIsDefined | kRequiresGrad | kHasStrides | kIsSparse | kIsCoalesced);
  if (record.flags == 0)
    return {};
  const bool is_sparse = (record.flags & kIsSparse) != 0;
  if ((record.flags & (is_sparse ? kHasStrides : kIsCoalesced)) != 0)
    refuse_packed("flags of a tensor", text(record.flags));
  at::Tensor tensor = is_sparse ? sparse(record) : dense(record);
  if ((record.flags & kRequiresGrad) != 0)
    tensor.set_requires_grad(true);
  return tensor;
}

}  // namespace

std::vector<at::Tensor> unpack_tensors(
    net::ByteReader& head, std::vector<Part> parts, const ValueLimits& limits) {
  const std::uint32_t count = head.u32();
  if (count > limits.tensors)
    throw InvalidArgument(text(
        "[rpc] expected at most ",
        limits.tensors,
        " tensors in a message, got ",
        count,
        "; send several messages, or raise ValueLimits::tensors"));
  if (count > head.left())
    refuse_packed(text("at most ", head.left(), " tensors"), text(count));
  const at::NoGradGuard no_grad;
  TensorUnpacker unpacker(head, parts, limits);
  std::vector<at::Tensor> tensors;
  tensors.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i)
    tensors.push_back(unpacker.next());
  if (unpacker.taken() != parts.size())
    refuse_packed(
        text("memory for ", unpacker.taken(), " tensors"),
        text(parts.size(), " parts"));
  return tensors;
}

}  // namespace trireme::rpc
