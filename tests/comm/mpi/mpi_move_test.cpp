// Moving bytes over MPI by every way there is.
#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

void run_all(const MpiTuning& tuning) {
  const Group world = testing::tuned_world(tuning);
  for (const auto& one : testing::move_cases()) {
    SCOPED_TRACE(one.name);
    one.body(world);
  }
}

TEST(MpiMoveProcs, TakesTheTreeToAgree) {
  run_all({.direct_ranks = 0});
}

TEST(MpiMoveProcs, GoesFromEachToEachWhenNothingIsSmall) {
  run_all({.small_bytes = 0});
}

TEST(MpiMoveProcs, CollectsEverythingWhenAllIsSmall) {
  run_all({.small_bytes = size_t{1} << 28});
}

// What is beyond the int of MPI's counts, at a size that a test can have.
TEST(MpiMoveProcs, CutsLongTransfers) {
  run_all({.small_bytes = 0, .transfer_bytes = 100003});
}

}  // namespace
}  // namespace trireme::comm
