// What stands before a tensor's elements, for tests: it may say what it likes.
#pragma once
#include <cstdint>
#include <vector>

#include <c10/core/ScalarType.h>

#include "trireme/net/bytes.h"
#include "trireme/rpc/tensor_form.h"

namespace trireme::rpc {

struct ForgedRecord {
  std::uint8_t flags = kIsDefined;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;

  void write(net::ByteWriter& head) const {
    head.u8(flags).u8(static_cast<std::uint8_t>(dtype));
    head.u8(static_cast<std::uint8_t>(sizes.size()));
    for (const std::int64_t size : sizes)
      head.i64(size);
    for (const std::int64_t stride : strides)
      head.i64(stride);
  }
};

}  // namespace trireme::rpc
