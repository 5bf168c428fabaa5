// A rank that meets the others over shared memory, for tests of `trireme run`.
//
//   world_rank MARK [MODE [RANK]]
//
// Modes, in which RANK (1 if none is given) is the odd one out:
//   exit_before_init  it leaves with 9 before it has met anybody
//   kill_before_init  it is killed then; the others do not listen to SIGTERM
//   kill_before_late  the same, and rank 2 comes when rank 0 has given up
//   kill_after_init   it is killed when all have met; the others wait for it
//   late              it never comes; the others say which segment they wait in
//   linger            rank 0 fails in the first attempt, while rank 1, which ignores
//                     SIGTERM, stays in the world
//   work              all say so, and sum numbers until they are stopped
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/deadline.h"
#include "trireme/core/environment.h"
#include "trireme/core/rank_roll.h"
#include "trireme/core/segment_file.h"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string own_segment() {
  return trireme::segment_name(
      trireme::read_launch_env(trireme::Environment::of_process()));
}

void wait_for_the_end_of_rank_0() {
  const auto roll =
      trireme::RankRoll::find(trireme::Environment::of_process(), own_segment());
  const auto deadline = trireme::Deadline::after(std::chrono::seconds(20));
  while (!roll.has_ended(0) && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argc > 2 ? argv[2] : "";
  const bool odd = variable("RANK") == (argc > 3 ? argv[3] : "1");
  const bool first = variable("TORCHELASTIC_RESTART_COUNT") == "0";
  if (mode == "exit_before_init" && odd)
    return 9;
  const bool killed = mode == "kill_before_init" || mode == "kill_before_late";
  if (killed && odd)
    ::raise(SIGKILL);
  if ((mode == "linger" && first) || killed)
    std::signal(SIGTERM, SIG_IGN);
  if (mode == "kill_before_late" && variable("RANK") == "2")
    wait_for_the_end_of_rank_0();
  while (mode == "late" && odd)
    ::pause();
  if (mode == "late")
    std::cout << "segment " << own_segment() << std::endl;
  const trireme::comm::Group world = trireme::comm::init();
  at::Tensor number = at::full({1}, world.rank() + 1);
  trireme::comm::all_reduce(world, number);
  if (mode == "kill_after_init") {
    if (odd)
      ::raise(SIGKILL);
    trireme::comm::barrier(world);
  }
  if (mode == "linger" && first) {
    if (world.rank() == 0)
      ::_exit(3);
    while (true)
      ::pause();
  }
  if (mode == "work")
    std::cout << "rank " + std::to_string(world.rank()) + " is at work\n" << std::flush;
  while (mode == "work")
    trireme::comm::all_reduce(world, number);
  std::cout << "rank " + std::to_string(world.rank()) + " has the sum " +
                   std::to_string(number.item<int64_t>()) + "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
