// Ranks as threads of one process that talk through shared memory, as processes do: to
// try a program over shm, or to debug it, before there is a launcher.
//
//   $ build/release/examples/example_shm_threads
//   2 ranks over shm: the sum is 3
#include <atomic>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"

using namespace trireme;

namespace {

constexpr int kRanks = 2;

// What a launcher would say to a rank. Two jobs of one host must not have one run id.
LaunchEnv place_of(int rank) {
  return {
      .launcher = Launcher::Torchrun,
      .rank = rank,
      .world_size = kRanks,
      .local_rank = rank,
      .local_world_size = kRanks,
      .run_id = "shm_threads-" + std::to_string(::getpid())};
}

void run(int rank) {
  const comm::Group world = comm::init(place_of(rank), {.backend = "shm"});
  at::Tensor sum = at::full({1}, rank + 1);
  comm::all_reduce(world, sum);
  if (rank == 0)
    std::cout << world.size() << " ranks over " << world.backend() << ": the sum is "
              << sum.item<int>() << "\n";
}

}  // namespace

int main() {
  std::vector<std::thread> ranks;
  std::atomic<int> failed = 0;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([rank, &failed] {
      try {
        run(rank);
      } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        failed = 1;  // whichever rank says so
      }
    });
  for (std::thread& rank : ranks)
    rank.join();
  return failed;
}
