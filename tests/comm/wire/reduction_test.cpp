// Reducing over a wire by every way there is.
#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

void reduce_every_way(int ranks, const WireTuning& tuning) {
  for (const auto& one : testing::reduction_cases()) {
    SCOPED_TRACE(text(one.name, " on ", ranks, " ranks"));
    run_wire(ranks, one.body, tuning);
  }
}

TEST(WireReductionRanks, TakesTheTreeToAgree) {
  for (const int ranks : {3, 8})
    reduce_every_way(ranks, {.direct_ranks = 0});
}

TEST(WireReductionRanks, CutsEverythingIntoChunks) {
  for (const int ranks : {2, 5})
    reduce_every_way(
        ranks, {.direct_ranks = 0, .small_bytes = 0, .chunk_bytes = 40000});
}

// Shards of one cache line: many chunks, and ranks without a share of the last one.
TEST(WireReductionRanks, CutsIntoTheSmallestShards) {
  for (const auto& one : testing::reduction_cases())
    if (one.name == "AllReduceKnowsEveryOpOfEveryDtype")
      run_wire(3, one.body, {.payload_bytes = 0, .small_bytes = 0, .chunk_bytes = 1});
}

TEST(WireReductionRanks, CollectsEverythingWhenAllIsSmall) {
  for (const int ranks : {2, 4})
    reduce_every_way(ranks, {.payload_bytes = 0, .small_bytes = size_t{1} << 28});
}

TEST(WireReductionRanks, EverythingRidesWithTheCall) {
  reduce_every_way(4, {.payload_bytes = size_t{4} << 20});
}

}  // namespace
}  // namespace trireme::comm
