// Moving bytes over hosts by every way there is.
#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

TEST(HostsMoveRanks, ByEveryWay) {
  for (const auto& one : testing::move_cases()) {
    SCOPED_TRACE(one.name);
    run_hosts({1, 2, 1}, one.body, {.direct_ranks = 0});
    run_hosts(
        {2, 3},
        one.body,
        {.payload_bytes = 600, .small_bytes = 0, .broadcast_bytes = 5000});
  }
}

TEST(HostsMoveRanks, BroadcastsFromEveryRank) {
  for (int root = 0; root < 6; ++root)
    run_hosts({2, 1, 3}, [root](const Group& world) {
      for (const int64_t count : {1, 1000, 400000}) {
        at::Tensor x = at::full({count}, world.rank());
        broadcast(world, x, root);
        EXPECT_TRUE(testing::same(x, at::full({count}, root)));
      }
    });
}

TEST(HostsMoveRanks, GathersPiecesOfAnySize) {
  run_hosts({2, 2}, [](const Group& world) {
    std::vector<at::Tensor> outputs;
    const int64_t mine = world.rank() == 2 ? 0 : 30000 * world.rank() + 1;
    all_gather_uneven(world, outputs, at::full({mine}, world.rank()));
    for (int k = 0; k < 4; ++k)
      EXPECT_TRUE(testing::same(
          outputs[static_cast<size_t>(k)], at::full({k == 2 ? 0 : 30000 * k + 1}, k)));
  });
}

}  // namespace
}  // namespace trireme::comm
