// main() of the tests that run under mpirun, and the world that they share.
#include <cstdlib>
#include <iostream>
#include <string>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/testing/run_tests.h"

namespace trireme::testing {
namespace {

constexpr std::chrono::seconds kTimeout{60};

/// Prints only what fails: rank 0 says the rest.
class FailurePrinter : public ::testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(std::string rank) : rank_(std::move(rank)) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed())
      std::cerr << text(
                       "rank ",
                       rank_,
                       ": ",
                       result.file_name() != nullptr ? result.file_name() : "?",
                       ":",
                       result.line_number(),
                       ": ",
                       result.summary())
                << std::endl;
  }

 private:
  std::string rank_;
};

}  // namespace

const comm::Group& mpi_world() {
  static const comm::Group world = comm::init({.backend = "mpi", .timeout = kTimeout});
  return world;
}

comm::MpiRuntime& mpi_runtime() {
  mpi_world();
  return comm::MpiRuntime::start({.deadline = Deadline::after(kTimeout)});
}

comm::Group tuned_world(const comm::MpiSetup& setup) {
  const comm::BackendContext context{
      .env = read_launch_env(Environment::of_process()),
      .deadline = Deadline::after(kTimeout)};
  return comm::Group(comm::start_mpi(context, setup), {.timeout = kTimeout});
}

LaunchEnv on_hosts(const std::vector<int>& sizes) {
  LaunchEnv env = read_launch_env(Environment::of_process());
  int first = 0;
  for (const int size : sizes) {
    if (env.rank >= first && env.rank < first + size) {
      env.local_rank = env.rank - first;
      env.local_world_size = size;
    }
    first += size;
  }
  return env;
}

void run_mpi(int ranks, const RankBody& body) {
  const comm::Group& world = mpi_world();
  try {
    const comm::Group part = world.split(world.rank() < ranks ? 0 : -1);
    if (part)
      body(part);
  } catch (const std::exception& error) {
    world.abort(error.what());  // the others would wait for this rank
  }
  comm::barrier(world);
}

}  // namespace trireme::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  at::set_num_threads(1);
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && std::string(rank) != "0") {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    std::cout.setstate(std::ios::failbit);  // what rank 0 says is enough
    listeners.Append(new trireme::testing::FailurePrinter(rank));
  }
  return trireme::testing::run_tests();
}
