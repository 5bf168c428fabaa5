#include "trireme/core/error.h"

#include <system_error>

namespace trireme {

std::string errno_text(int code) {
  return text(std::generic_category().message(code), " (errno ", code, ")");
}

void assertion_failed(const char* condition, const char* file, int line) {
  throw InternalError(text(
      "[core] expected ",
      condition,
      " at ",
      file,
      ":",
      line,
      "; this is a bug in Trireme, please report it"));
}

}  // namespace trireme
