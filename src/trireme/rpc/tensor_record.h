// What stands before a tensor's elements, read from bytes that nobody trusts.
#pragma once
#include <cstdint>
#include <string>

#include <c10/core/ScalarType.h>

#include "trireme/net/bytes.h"
#include "trireme/rpc/tensor_form.h"

namespace trireme::rpc {

/// A tensor but for its strides and elements. Of an undefined one the flags are 0.
struct TensorRecord {
  int flags = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  TensorDims sizes;
  /// How many elements the sizes say; it fits, and the strides do too.
  std::int64_t numel = 0;
};

/// InvalidArgument for flags beside the allowed, and for what no tensor can be.
TensorRecord read_tensor_record(net::ByteReader& head, int allowed_flags);

/// The strides behind a record; none if they are the usual. InvalidArgument unless they
/// place the elements side by side.
TensorDims read_tensor_strides(net::ByteReader& head, const TensorRecord& record);

/// InvalidArgument: a message's tensors are not what pack_tensors() writes.
[[noreturn]] void refuse_packed(const std::string& expected, const std::string& got);

}  // namespace trireme::rpc
