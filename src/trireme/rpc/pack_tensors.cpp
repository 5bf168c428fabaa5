#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/core/Storage.h>

#include "trireme/core/error.h"
#include "trireme/rpc/tensor_form.h"
#include "trireme/rpc/values.h"

namespace trireme::rpc {
namespace {

[[noreturn]] void refuse_to_pack(const std::string& got, std::size_t index) {
  throw NotSupported(text(
      "[rpc] expected dense or sparse COO tensors on the CPU, got ",
      got,
      " as tensor ",
      index,
      "; convert it before it is sent"));
}

void expect_packable(const at::Tensor& tensor, std::size_t index) {
  if (!tensor.device().is_cpu())
    refuse_to_pack(text("one on ", tensor.device()), index);
  if (tensor.is_quantized())
    refuse_to_pack(text("a quantized one of ", tensor.scalar_type()), index);
  if (!is_packed_dtype(static_cast<int>(tensor.scalar_type())))
    refuse_to_pack(text("one of ", tensor.scalar_type()), index);
  if (tensor.is_nested())
    refuse_to_pack("a nested one", index);
  if (tensor.layout() != at::kStrided && tensor.layout() != at::kSparse)
    refuse_to_pack(text("one of layout ", tensor.layout()), index);
  if (tensor.layout() == at::kStrided && !tensor.has_storage())
    refuse_to_pack("one without memory of its own", index);
  if (static_cast<std::size_t>(tensor.dim()) > kMostTensorDims)
    refuse_to_pack(text("one of ", tensor.dim(), " dims"), index);
}

bool travels_as_it_lies(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && !tensor.is_conj() &&
         !tensor.is_neg() && !tensor._is_zerotensor();
}

/// The same elements side by side in memory.
at::Tensor as_it_can_lie(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  at::Tensor plain = tensor.resolve_conj().resolve_neg();
  if (plain._is_zerotensor())
    plain = at::zeros(plain.sizes(), plain.options());
  return plain.contiguous();
}

/// Strides of dims of size 1 say nothing, and may be anything: kept where they do no
/// harm, for they tell channels_last.
TensorDims strides_of(const at::Tensor& tensor) {
  TensorDims strides(tensor.strides().begin(), tensor.strides().end());
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (tensor.sizes()[i] == 1)
      strides[i] = std::min(strides[i], tensor.numel());
  return strides;
}

void write_dims(at::IntArrayRef dims, net::ByteWriter& head) {
  for (const std::int64_t dim : dims)
    head.i64(dim);
}

void write_common(const at::Tensor& tensor, int flags, net::ByteWriter& head) {
  head.u8(static_cast<std::uint8_t>(flags))
      .u8(static_cast<std::uint8_t>(tensor.scalar_type()))
      .u8(static_cast<std::uint8_t>(tensor.dim()));
  write_dims(tensor.sizes(), head);
}

/// Holds the memory alone, and no graph of autograd.
Part part_of(const at::Tensor& tensor) {
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {
      .bytes = {const_cast<std::byte*>(data), tensor.nbytes()},
      .keep = std::make_shared<c10::Storage>(tensor.storage())};
}

void pack_dense(
    const at::Tensor& given,
    int flags,
    net::ByteWriter& head,
    std::vector<Part>& parts) {
  if (given.numel() == 0) {
    write_common(given, flags, head);
    return;
  }
  if (!travels_as_it_lies(given)) {
    pack_dense(as_it_can_lie(given), flags, head, parts);
    return;
  }
  if (are_usual_strides(given.sizes(), given.strides())) {
    write_common(given, flags, head);
  } else {
    write_common(given, flags | kHasStrides, head);
    write_dims(strides_of(given), head);
  }
  parts.push_back(part_of(given));
}

void pack_sparse(
    const at::Tensor& tensor,
    int flags,
    std::size_t index,
    net::ByteWriter& head,
    std::vector<Part>& parts) {
  if (tensor.sparse_dim() == 0)
    refuse_to_pack("a sparse one without sparse dims", index);
  if (tensor.is_coalesced())
    flags |= kIsCoalesced;
  write_common(tensor, flags | kIsSparse, head);
  head.u8(static_cast<std::uint8_t>(tensor.sparse_dim()));
  pack_dense(tensor._indices().detach(), kIsDefined, head, parts);
  pack_dense(tensor._values().detach(), kIsDefined, head, parts);
}

}  // namespace

void pack_tensors(
    const std::vector<at::Tensor>& tensors,
    net::ByteWriter& head,
    std::vector<Part>& parts) {
  head.u32(static_cast<std::uint32_t>(tensors.size()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (!tensor.defined()) {
      head.u8(0);
      continue;
    }
    expect_packable(tensor, i);
    const int flags = kIsDefined | (tensor.requires_grad() ? kRequiresGrad : 0);
    if (tensor.layout() == at::kSparse)
      pack_sparse(tensor, flags, i, head, parts);
    else
      pack_dense(tensor, flags, head, parts);
  }
}

}  // namespace trireme::rpc
