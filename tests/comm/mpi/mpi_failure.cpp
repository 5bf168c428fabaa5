// A program with a world over MPI that goes wrong in the way that its argument says;
// mpi_failure_test.py starts it and looks at what comes of it.
#include <chrono>
#include <csignal>
#include <functional>
#include <iostream>
#include <map>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <thread>

#include <ATen/ATen.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"

namespace trireme::comm {
namespace {

using std::chrono::seconds;

bool two_hosts = false;

// As it is, or as if every two ranks had a host of their own.
Group join() {
  if (!two_hosts)
    return init({.backend = "mpi"});
  const Environment variables = Environment::of_process();
  LaunchEnv env = read_launch_env(variables);
  env.local_rank = env.rank % 2;
  env.local_world_size = 2;
  return init(env, {.backend = "mpi", .timeout = read_timeout(variables)});
}

// Ends the process unless the job is stopped before: no test waits for ever.
void wait_for_the_end() {
  std::this_thread::sleep_for(seconds(120));
}

void fail_by_exception() {
  const Group world = join();
  barrier(world);
  if (world.rank() == 1)
    throw std::runtime_error("the oar is broken");
  barrier(world);  // rank 1 will not come
}

void fail_by_abort() {
  const Group world = join();
  barrier(world);
  if (world.rank() == 1)
    world.abort("the oar is broken");
  barrier(world);
}

void fail_in_a_channel() {
  const Group world = join();
  const Channel edge(world, {0, 1});
  if (world.rank() == 1)
    edge.receive(std::chrono::milliseconds(200));  // TimeoutError
  barrier(world);
}

void miss_a_call() {
  const Group world = join();
  at::Tensor x = at::ones({3});
  barrier(world);
  if (world.rank() == 1)
    wait_for_the_end();
  all_reduce(world, x, {.timeout = std::chrono::milliseconds(700)});
}

void miss_the_start() {
  if (std::getenv("OMPI_COMM_WORLD_RANK") == std::string("1"))
    wait_for_the_end();
  join();
}

void die() {
  const Group world = join();
  barrier(world);
  if (world.rank() == 1)
    ::raise(SIGKILL);
  barrier(world);
}

// What nobody receives is lost when the job ends, but does not hold it up for ever.
void leave_a_message() {
  const Group world = join();
  if (world.rank() == 0) {
    const Channel edge(world, {0, 1});
    edge.send({.tensors = {at::ones({8 << 20})}});
  }
  barrier(world);
}

void start_with(int level) {
  int got = 0;
  MPI_Init_thread(nullptr, nullptr, level, &got);
  {
    const Group world = join();
    at::Tensor one = at::ones({1});
    all_reduce(world, one);
    std::cout << "sum " << one.item<float>() << std::endl;
  }
  MPI_Finalize();
}

}  // namespace
}  // namespace trireme::comm

int main(int argc, char** argv) {
  using namespace trireme::comm;
  const std::map<std::string, std::function<void()>> ways = {
      {"abort", fail_by_abort},
      {"channel", fail_in_a_channel},
      {"die", die},
      {"exception", fail_by_exception},
      {"join", [] { join(); }},
      {"leave", leave_a_message},
      {"miss", miss_a_call},
      {"miss_start", miss_the_start},
      {"single", [] { start_with(MPI_THREAD_SINGLE); }},
      {"multiple", [] { start_with(MPI_THREAD_MULTIPLE); }}};
  two_hosts = argc > 2 && argv[2] == std::string("hosts");
  try {
    ways.at(argc > 1 ? argv[1] : "")();
  } catch (const std::exception& error) {
    // One write: mpiexec's own words must not come in between.
    std::cerr << std::string("main caught: ").append(error.what()).append("\n");
    return 1;
  }
}
