// Uses one thing of each module that is installed, so that headers, libraries and what
// they depend on are all found from outside. build_consumer.cmake checks the output.
#include <iostream>

#include "trireme/core/error.h"
#include "trireme/version.h"

namespace {

// The error is thrown inside the library's own code and caught by its type here.
void use_core() {
  try {
    TRIREME_ASSERT(1 + 1 == 3);
  } catch (const trireme::InternalError&) {
    std::cout << "core: caught InternalError\n";
  }
}

}  // namespace

int main() {
  std::cout << "Trireme " << trireme::kVersion << '\n';
  use_core();
}
