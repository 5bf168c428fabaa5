// Arguments and results on their way: bytes, and beside them what must not be copied.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/net/bytes.h"
#include "trireme/rpc/packet.h"
#include "trireme/rpc/reference.h"

namespace trireme::rpc {

/// Values as they travel. Tensors and references stand beside the bytes in the order in
/// which they were written.
struct Values {
  std::string bytes;
  std::vector<at::Tensor> tensors;
  std::vector<Reference> references;
};

/// Counts how deep structs stand inside each other while it lives, so that no bytes can
/// exhaust the stack: InvalidArgument beyond kMost.
class StructDepth {
 public:
  static constexpr int kMost = 100;
  explicit StructDepth(int& depth);
  ~StructDepth() { --depth_; }
  StructDepth(const StructDepth&) = delete;
  StructDepth& operator=(const StructDepth&) = delete;

 private:
  int& depth_;
};

/// Puts one value after the other.
///
///     ValueWriter writer;
///     writer.bytes().u64(3);
///     writer.tensor(weights);
///     Values values = writer.take();
class ValueWriter {
 public:
  net::ByteWriter& bytes() { return bytes_; }
  void tensor(at::Tensor tensor) { values_.tensors.push_back(std::move(tensor)); }
  void reference(Reference reference) {
    values_.references.push_back(std::move(reference));
  }
  /// How many elements follow, or bytes: InvalidArgument from 2^32 on.
  void count(std::size_t elements);
  void string(std::string_view text);
  /// Hold it while the members of a struct are written.
  StructDepth enter_struct() { return StructDepth(depth_); }
  /// The values, out of the writer, which begins anew.
  Values take() {
    values_.bytes = bytes_.take();
    return std::exchange(values_, {});
  }

 private:
  net::ByteWriter bytes_;
  Values values_;
  int depth_ = 0;
};

/// Takes the values out again, in the same order; InvalidArgument for what is not
/// there. The values must outlive the reader.
class ValueReader {
 public:
  /// `what` is a literal, for errors: "the arguments of a call".
  ValueReader(const Values& values, const char* what)
      : values_(values), bytes_(values.bytes, what), what_(what) {}
  net::ByteReader& bytes() { return bytes_; }
  at::Tensor tensor();
  Reference reference();
  /// How many elements a container has: InvalidArgument for more than can be there, if
  /// each takes at least one byte, tensor or reference.
  std::size_t count();
  /// What string() wrote; it lives as long as the values do.
  std::string_view string() { return bytes_.view(bytes_.left()); }
  /// The byte that stands for no value.
  void nothing();
  StructDepth enter_struct() { return StructDepth(depth_); }
  /// InvalidArgument unless all was taken.
  void expect_end() const;
  /// What is read, for errors.
  const char* what() const { return what_; }

 private:
  const Values& values_;
  net::ByteReader bytes_;
  const char* what_;
  std::size_t tensor_ = 0;
  std::size_t reference_ = 0;
  int depth_ = 0;
};

/// What a receiver takes at most.
struct ValueLimits {
  /// A tensor's elements, before anything is allocated for it.
  std::uint64_t tensor_bytes = std::uint64_t{16} << 30;
  std::uint32_t tensors = 1 << 20;
  std::uint32_t references = 1 << 20;
};

/// Describes the tensors in `head`, behind what is there, and puts their memory, which
/// is not copied, into `parts`: dense ones of any strides (gaps between elements are
/// closed by a copy), sparse COO, undefined; requires_grad travels. What the tensors
/// hold must not change until it is sent. References are not packed: the agent does
/// that. NotSupported for tensors of another device or layout.
void pack_tensors(
    const std::vector<at::Tensor>& tensors,
    net::ByteWriter& head,
    std::vector<Part>& parts);

/// Reads what pack_tensors() has written; tensors are views of the parts. Nothing is
/// trusted: InvalidArgument for whatever does not fit.
std::vector<at::Tensor> unpack_tensors(
    net::ByteReader& head, std::vector<Part> parts, const ValueLimits& limits);

}  // namespace trireme::rpc
