// Any bytes as the header of a message between ranks: refused, or one that says the
// same when it is written again.
#include <string>

#include "trireme/comm/tcp/tcp_header.h"
#include "trireme/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme::comm;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (encode(decode_tcp_header(bytes)) != bytes)
      __builtin_trap();
  } catch (const trireme::InvalidArgument&) {
  }
  return 0;
}
