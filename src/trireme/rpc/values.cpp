#include "trireme/rpc/values.h"

#include <limits>

#include "trireme/core/error.h"

namespace trireme::rpc {
namespace {

[[noreturn]] void refuse_missing(
    const char* kind, std::size_t count, const char* what) {
  throw InvalidArgument(text(
      "[rpc] expected one more ",
      kind,
      " in ",
      what,
      ", got ",
      count,
      " in all; both sides need the same version of the program"));
}

}  // namespace

StructDepth::StructDepth(int& depth) : depth_(depth) {
  if (depth_ == kMost)
    throw InvalidArgument(text(
        "[rpc] expected at most ",
        kMost,
        " structs inside each other, got more; send a list instead of a chain"));
  ++depth_;
}

void ValueWriter::count(std::size_t elements) {
  if (elements > std::numeric_limits<std::uint32_t>::max())
    throw InvalidArgument(text(
        "[rpc] expected fewer than 2^32 elements or bytes in a value, got ",
        elements,
        "; send large data as tensors"));
  bytes_.u32(static_cast<std::uint32_t>(elements));
}

void ValueWriter::string(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max())
    count(text.size());  // refuses
  bytes_.string(text);
}

at::Tensor ValueReader::tensor() {
  if (tensor_ == values_.tensors.size())
    refuse_missing("tensor", tensor_, what_);
  return values_.tensors[tensor_++];
}

Reference ValueReader::reference() {
  if (reference_ == values_.references.size())
    refuse_missing("reference", reference_, what_);
  return values_.references[reference_++];
}

std::size_t ValueReader::count() {
  const std::size_t count = bytes_.u32();
  const std::size_t left = bytes_.left() + (values_.tensors.size() - tensor_) +
                           (values_.references.size() - reference_);
  if (count > left)
    throw InvalidArgument(text(
        "[rpc] expected at most ",
        left,
        " elements in the rest of ",
        what_,
        ", got a list of ",
        count,
        "; both sides need the same version of the program"));
  return count;
}

void ValueReader::nothing() {
  if (const int got = bytes_.u8(); got != 0)
    throw InvalidArgument(text(
        "[rpc] expected 0 for nothing in ",
        what_,
        ", got ",
        got,
        "; both sides need the same version of the program"));
}

void ValueReader::expect_end() const {
  bytes_.expect_end();
  const std::size_t tensors = values_.tensors.size() - tensor_;
  const std::size_t references = values_.references.size() - reference_;
  if (tensors + references > 0)
    throw InvalidArgument(text(
        "[rpc] expected the end of ",
        what_,
        ", got ",
        tensors,
        " more tensors and ",
        references,
        " more references; both sides need the same version of the program"));
}

}  // namespace trireme::rpc
