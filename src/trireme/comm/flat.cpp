#include "trireme/comm/flat.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

void check_tensor(const Group& group, std::string_view call, const at::Tensor& tensor) {
  if (!tensor.defined())
    throw InvalidArgument(
        text("[comm] ", call, ": expected a tensor, got an undefined one; give one"));
  if (tensor.layout() != at::kStrided)
    throw InvalidArgument(text(
        "[comm] ",
        call,
        ": expected a dense tensor, got a sparse one; convert it, or send its indices "
        "and "
        "values"));
  group.engine(tensor.device().type());
}

}  // namespace

Flat::Flat(const at::Tensor& original, at::Tensor flat)
    : original_(original), flat_(std::move(flat)) {}

Flat Flat::input(const Group& group, std::string_view call, const at::Tensor& tensor) {
  check_tensor(group, call, tensor);
  if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg())
    return Flat(tensor, tensor);
  return Flat(tensor, tensor.detach().resolve_conj().resolve_neg().contiguous());
}

Flat Flat::output(const Group& group, std::string_view call, const at::Tensor& tensor) {
  Flat flat = input(group, call, tensor);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw InvalidArgument(text(
        "[comm] ",
        call,
        ": expected a tensor with memory of its own for every element, got an expanded "
        "one; "
        "call contiguous() first"));
  return flat;
}

c10::ScalarType Flat::dtype() const {
  return as_real_ ? c10::toRealValueType(flat_.scalar_type()) : flat_.scalar_type();
}

Piece Flat::piece() const {
  return {static_cast<std::byte*>(flat_.data_ptr()), flat_.nbytes()};
}

Piece Flat::part(int index, int parts) const {
  const size_t bytes = flat_.nbytes() / static_cast<size_t>(parts);
  return {piece().data + bytes * static_cast<size_t>(index), bytes};
}

void Flat::finish() const {
  if (!flat_.is_alias_of(original_)) {
    const at::NoGradGuard no_grad;
    original_.copy_(flat_);
  } else if (!original_.is_inference()) {
    original_.unsafeGetTensorImpl()->bump_version();
  }
}

void check_root(const Group& group, std::string_view call, int root) {
  if (root < 0 || root >= group.size())
    throw InvalidArgument(text(
        "[comm] ",
        call,
        ": expected a root from 0 to ",
        group.size() - 1,
        ", got ",
        root,
        "; give a rank of the group"));
}

void check_no_overlap(
    std::string_view call, PerRank<Piece> give, PerRank<Piece> take, const Piece& own) {
  // Both sorted by address: then one walk finds an overlap.
  const auto tidy = [&own](PerRank<Piece>& pieces) {
    const auto idle = [&own](const Piece& piece) {
      return piece.bytes == 0 || (piece.data == own.data && piece.bytes == own.bytes);
    };
    pieces.erase(std::remove_if(pieces.begin(), pieces.end(), idle), pieces.end());
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
      return a.data < b.data;
    });
  };
  tidy(give);
  tidy(take);
  size_t i = 0;
  for (const Piece& out : take) {
    while (i < give.size() && give[i].data + give[i].bytes <= out.data)
      ++i;
    if (i < give.size() && give[i].data < out.data + out.bytes)
      throw InvalidArgument(text(
          "[comm] ",
          call,
          ": expected an output apart from the input, got two that share memory; clone "
          "the input"));
  }
}

void check_same_dtype(std::string_view call, const Flat& a, const Flat& b) {
  if (a.dtype() != b.dtype())
    throw InvalidArgument(text(
        "[comm] ",
        call,
        ": expected input and output of one dtype, got ",
        dtype_name(a.dtype()),
        " and ",
        dtype_name(b.dtype()),
        "; convert one of them"));
}

}  // namespace trireme::comm
