// Reducing over MPI by every way there is.
#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

void run_all(const MpiTuning& tuning) {
  const Group world = testing::tuned_world(tuning);
  for (const auto& one : testing::reduction_cases()) {
    SCOPED_TRACE(one.name);
    one.body(world);
  }
}

TEST(MpiReductionProcs, TakesTheTreeToAgree) {
  run_all({.direct_ranks = 0});
}

TEST(MpiReductionProcs, CutsEverythingIntoChunks) {
  run_all({.direct_ranks = 0, .small_bytes = 0, .chunk_bytes = 40000});
}

// Shards of one cache line: many chunks, and ranks without a share of the last one.
TEST(MpiReductionProcs, CutsIntoTheSmallestShards) {
  const Group world = testing::tuned_world({.small_bytes = 0, .chunk_bytes = 1});
  for (const auto& one : testing::reduction_cases())
    if (one.name == "AllReduceKnowsEveryOpOfEveryDtype") {
      one.body(world);
    }
}

TEST(MpiReductionProcs, CollectsEverythingWhenAllIsSmall) {
  run_all({.small_bytes = size_t{1} << 28});
}

TEST(MpiReductionProcs, CutsLongTransfers) {
  run_all({.small_bytes = 0, .transfer_bytes = 10007});
}

}  // namespace
}  // namespace trireme::comm
