// A rank that meets the others over shared memory, for tests of `trireme run`.
//
//   world_rank MARK [exit_before_init | linger]
//
// The first lets rank 1 leave with 9 before it has met anybody. The second lets rank 0
// fail in the first attempt, while rank 1, which ignores SIGTERM, stays in the world.
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <unistd.h>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argc > 2 ? argv[2] : "";
  const bool first = variable("TORCHELASTIC_RESTART_COUNT") == "0";
  if (mode == "exit_before_init" && variable("RANK") == "1")
    return 9;
  if (mode == "linger" && first)
    std::signal(SIGTERM, SIG_IGN);
  const trireme::comm::Group world = trireme::comm::init();
  at::Tensor number = at::full({1}, world.rank() + 1);
  trireme::comm::all_reduce(world, number);
  if (mode == "linger" && first) {
    if (world.rank() == 0)
      ::_exit(3);
    while (true)
      ::pause();
  }
  std::cout << "rank " + std::to_string(world.rank()) + " has the sum " +
                   std::to_string(number.item<int64_t>()) + "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
