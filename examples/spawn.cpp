// A program that starts its own ranks: no launcher is needed.
//
//   $ build/release/examples/example_spawn
//   rank 0 of 3: the sum is 6
//   all ranks ended with code 0
#include <exception>
#include <iostream>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/launch/launcher.h"

namespace {

// What each rank does, in a process of its own.
int work(int rank) {
  const trireme::comm::Group world = trireme::comm::init();
  // What is thrown in here reaches the other ranks with its words.
  trireme::comm::telling_peers(world, [&] {
    at::Tensor number = at::full({1}, rank + 1);
    trireme::comm::all_reduce(world, number);
    if (rank == 0)
      std::cout << "rank 0 of " << world.size() << ": the sum is "
                << number.item<int64_t>() << std::endl;
  });
  return 0;
}

}  // namespace

int main() try {
  const auto outcome = trireme::launch::spawn({.ranks = 3}, work);
  std::cout << "all ranks ended with code " << outcome.exit_code << std::endl;
  return outcome.exit_code;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
