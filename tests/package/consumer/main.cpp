// Uses one thing of each module that is installed, so that headers, libraries and what
// they depend on are all found from outside. build_consumer.cmake checks the output.
#include <iostream>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
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

void use_comm() {
  trireme::comm::run_local(2, [](const trireme::comm::Group& world) {
    at::Tensor x = at::full({3}, world.rank() + 1);
    trireme::comm::all_reduce(world, x);
    if (world.rank() == 0)
      std::cout << "comm: 1 + 2 = " << x[0].item<int>() << '\n';
  });
}

}  // namespace

int main() {
  std::cout << "Trireme " << trireme::kVersion << '\n';
  use_core();
  use_comm();
}
