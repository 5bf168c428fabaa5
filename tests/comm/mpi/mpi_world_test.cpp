// What the groups of a rank share. How a world stops is for mpi_failure_test.py to see.
#include "trireme/comm/mpi/mpi_world.h"

#include <climits>

#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/comm/flight_file.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::comm {
namespace {

TEST(MpiWorldProcs, KeepsAFlightRecord) {
  MpiRuntime& runtime = testing::mpi_runtime();
  const testing::ScratchFolder folder;
  const MpiWorld world(
      runtime,
      {.local_ranks = runtime.size(), .flight_folder = folder.path().string()});
  for (int i = 0; i < 2000; ++i)
    world.recorder()
        .begin({.kind = FlightKind::Send, .what = 64, .sequence = 1, .peer = 0})
        .done();
  world.recorder().dump(world.rank(), "a test");
  const auto records = load_flight(folder.path());
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].rank, world.rank());
  EXPECT_EQ(records[0].calls.size(), kFlightEntries);
  EXPECT_EQ(records[0].reason, "a test");
}

TEST(MpiWorldProcs, HasDefaultsForPrograms) {
  const MpiSetup setup;
  EXPECT_EQ(setup.tuning.chunk_bytes % 64, 0U);
  EXPECT_LE(setup.transfer_bytes, size_t{INT_MAX});
}

}  // namespace
}  // namespace trireme::comm
