// Joining the world of MPI.
#include "trireme/comm/mpi/mpi_backend.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

LaunchEnv launch_env() {
  return read_launch_env(Environment::of_process());
}

TEST(MpiBackendProcs, IsThere) {
  EXPECT_TRUE(has_mpi());
}

TEST(MpiBackendProcs, RefusesAWorldOfAnotherSize) {
  LaunchEnv env = launch_env();
  ++env.world_size;
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { init(env, {.backend = "mpi"}); }),
      text("; start it with mpirun -n ", env.world_size, " PROGRAM")));
}

TEST(MpiBackendProcs, RefusesAnotherRank) {
  LaunchEnv env = launch_env();
  ++env.rank;
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { init(env, {.backend = "mpi"}); }),
      text(
          "as rank ",
          env.rank,
          ", as the launcher's variables do, got rank ",
          env.rank - 1)));
}

TEST(MpiBackendProcs, CanBeJoinedAgain) {
  for (int round = 0; round < 3; ++round) {
    Group world = init(launch_env(), {.backend = "mpi"});
    at::Tensor one = at::ones({1});
    all_reduce(world, one);
    EXPECT_EQ(one.item<float>(), static_cast<float>(world.size()));
    world.close();
  }
}

}  // namespace
}  // namespace trireme::comm
