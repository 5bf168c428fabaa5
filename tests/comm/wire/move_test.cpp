// Moving bytes over a wire by every way there is.
#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

void move_every_way(int ranks, const WireTuning& tuning) {
  for (const auto& one : testing::move_cases()) {
    SCOPED_TRACE(text(one.name, " on ", ranks, " ranks"));
    run_wire(ranks, one.body, tuning);
  }
}

TEST(WireMoveRanks, TakesTheTreeToAgree) {
  for (const int ranks : {3, 8})
    move_every_way(ranks, {.direct_ranks = 0});
}

TEST(WireMoveRanks, GoesFromEachToEachWhenNothingIsSmall) {
  for (const int ranks : {2, 5})
    move_every_way(ranks, {.payload_bytes = 0, .small_bytes = 0});
}

TEST(WireMoveRanks, CollectsEverythingWhenAllIsSmall) {
  for (const int ranks : {2, 5})
    move_every_way(ranks, {.payload_bytes = 0, .small_bytes = size_t{1} << 28});
}

TEST(WireMoveRanks, BroadcastsInPieces) {
  for (const int ranks : {2, 5})
    move_every_way(ranks, {.payload_bytes = 0, .broadcast_bytes = 10007});
}

TEST(WireMoveRanks, BroadcastsDownATree) {
  for (const int ranks : {4, 7})
    for (int root = 0; root < ranks; ++root)
      run_wire(ranks, [root](const Group& world) {
        at::Tensor x = at::full({3000}, world.rank());
        broadcast(world, x, root);
        EXPECT_TRUE(testing::same(x, at::full({3000}, root)));
      });
}

}  // namespace
}  // namespace trireme::comm
