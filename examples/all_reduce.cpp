// Every rank gives a number; every rank gets the sum. Alone it is a world of one:
//
//   $ build/release/examples/example_all_reduce
//   rank 0 of 1: the sum is 1
//
// Under a launcher, as torchrun, mpirun or srun, each rank prints its line:
//
//   $ torchrun --nproc-per-node 2 --no-python build/release/examples/example_all_reduce
//   rank 0 of 2: the sum is 3
//   rank 1 of 2: the sum is 3
#include <exception>
#include <iostream>
#include <string>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"

int main() try {
  const trireme::comm::Group world = trireme::comm::init();
  // What is thrown in here reaches the other ranks with its words.
  trireme::comm::telling_peers(world, [&world] {
    at::Tensor number = at::full({1}, world.rank() + 1);
    trireme::comm::all_reduce(world, number);
    // One write a line, so that the lines of several ranks do not mix.
    std::cout << "rank " + std::to_string(world.rank()) + " of " +
                     std::to_string(world.size()) + ": the sum is " +
                     std::to_string(number.item<int64_t>()) + "\n";
  });
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
