#include "trireme/rpc/wire_numbers.h"

#include "trireme/core/error.h"

namespace trireme::rpc {

void refuse_number(
    const std::string& expected, const std::string& got, const char* what) {
  throw InvalidArgument(text(
      "[rpc] expected ",
      expected,
      " in ",
      what,
      ", got ",
      got,
      "; take a wider type on the side that reads, or send what it can hold"));
}

}  // namespace trireme::rpc
