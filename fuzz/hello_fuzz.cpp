// Any bytes as a greeting: refused, or one that says the same when it is written again.
#include <string>

#include "trireme/core/error.h"
#include "trireme/net/hello.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme::net;
  try {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    const Hello hello = decode_hello(bytes);
    // What is small must fit into one frame.
    if (hello.limits.small_bytes > (std::size_t{256} << 10))
      __builtin_trap();
    if (encode(hello) != bytes)
      __builtin_trap();
  } catch (const trireme::InvalidArgument&) {
  }
  return 0;
}
