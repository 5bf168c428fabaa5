#include "trireme/rpc/wire_containers.h"

#include "trireme/core/error.h"

namespace trireme::rpc {

void refuse_length(std::size_t expected, std::size_t got, const char* what) {
  throw InvalidArgument(text(
      "[rpc] expected a list of ",
      expected,
      " elements in ",
      what,
      ", got ",
      got,
      "; send as many as the array has, or read into a vector"));
}

void refuse_repeated_key(const char* what) {
  throw InvalidArgument(text(
      "[rpc] expected each key of a map once in ",
      what,
      ", got one twice; both sides need to agree when two keys are the same"));
}

}  // namespace trireme::rpc
