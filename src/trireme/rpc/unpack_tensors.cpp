#include <algorithm>
#include <utility>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/rpc/tensor_record.h"
#include "trireme/rpc/values.h"

namespace trireme::rpc {
namespace {

/// Takes the tensors of a message one after the other.
class TensorUnpacker {
 public:
  TensorUnpacker(
      net::ByteReader& head, std::vector<Part>& parts, const ValueLimits& limits)
      : head_(head), parts_(parts), limits_(limits) {}
  at::Tensor next();
  std::size_t taken() const { return taken_; }

 private:
  Part part(std::uint64_t bytes, c10::ScalarType dtype);
  at::Tensor dense(const TensorRecord& record);
  at::Tensor sparse(const TensorRecord& record);

  net::ByteReader& head_;
  std::vector<Part>& parts_;
  const ValueLimits& limits_;
  std::size_t taken_ = 0;
};

at::TensorOptions options_of(const TensorRecord& record) {
  return at::TensorOptions().dtype(record.dtype);
}

/// The message's memory as a tensor's, which lets go of it by a plain function: a
/// std::function would take two allocations more.
at::Tensor view_of(Part part, const TensorRecord& record, at::IntArrayRef strides) {
  using Keep = std::shared_ptr<const void>;
  auto keep = std::make_unique<Keep>(std::move(part.keep));
  auto maker = at::for_blob(part.bytes.data(), record.sizes);
  if (!strides.empty())
    maker.strides(strides);
  return maker
      .context(keep.release(), [](void* kept) { delete static_cast<Keep*>(kept); })
      .options(options_of(record))
      .make_tensor();
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
  const TensorDims strides = read_tensor_strides(head_, record);
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
  return view_of(part(bytes, record.dtype), record, strides);
}

at::Tensor TensorUnpacker::sparse(const TensorRecord& record) {
  const std::size_t sparse_dims = head_.u8();
  if (sparse_dims == 0 || sparse_dims > record.sizes.size())
    refuse_packed(
        text("1 to ", record.sizes.size(), " sparse dims"), text(sparse_dims));
  const TensorRecord places = read_tensor_record(head_, kIsDefined | kHasStrides);
  if (places.dtype != c10::kLong || places.sizes.size() != 2 ||
      places.sizes[0] != static_cast<std::int64_t>(sparse_dims))
    refuse_packed(
        text("indices of ", sparse_dims, " dims"), text(at::IntArrayRef(places.sizes)));
  const at::Tensor indices = dense(places);
  const TensorRecord elements = read_tensor_record(head_, kIsDefined | kHasStrides);
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
  const TensorRecord record = read_tensor_record(
      head_, kIsDefined | kRequiresGrad | kHasStrides | kIsSparse | kIsCoalesced);
  if (record.flags == 0)
    return {};
  at::Tensor tensor = (record.flags & kIsSparse) != 0 ? sparse(record) : dense(record);
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
