// Any bytes as a word between launchers: refused, or one that says the same when it is
// written again.
#include <string>

#include "trireme/core/error.h"
#include "trireme/launch/word.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme::launch;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (encode(decode_word(bytes)) != bytes)
      __builtin_trap();
  } catch (const trireme::InvalidArgument&) {
  }
  return 0;
}
