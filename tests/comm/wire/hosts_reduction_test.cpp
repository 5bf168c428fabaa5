// Reducing over hosts. The suites of hosts_engine_test.cpp go through every size of
// piece, and chain_test.cpp compares the bits.
#include <gtest/gtest.h>

#include "../any_order.h"
#include "local_hosts.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

TEST(HostsReductionRanks, TakesTheTreeToAgree) {
  for (const auto& one : testing::reduction_cases()) {
    SCOPED_TRACE(one.name);
    run_hosts({1, 2, 1}, one.body, {.direct_ranks = 0});
  }
}

// Sums of whole numbers are exact in any order.
TEST(HostsReductionRanks, InAnyOrder) {
  for (const auto& sizes : {std::vector{2, 2}, std::vector{1, 3}})
    for (const auto& one : testing::reduction_cases()) {
      if (one.name == "AllReduceSumsInRankOrder")
        continue;
      SCOPED_TRACE(one.name);
      const LocalHosts hosts(sizes, {.small_bytes = 0});
      run_in_any_order(
          hosts.ranks(),
          [&](int rank, const Deadline& deadline) {
            return hosts.join(rank, deadline);
          },
          one.body);
    }
}

TEST(HostsReductionRanks, ReducesToEveryRank) {
  for (int root = 0; root < 6; ++root)
    run_hosts({2, 1, 3}, [root](const Group& world) {
      for (const int64_t count : {1, 1000, 400000}) {
        at::Tensor x = at::full({count}, world.rank() + 1, at::kLong);
        reduce(world, x, root);
        const int64_t expected = world.rank() == root ? 21 : world.rank() + 1;
        EXPECT_TRUE(testing::same(x, at::full({count}, expected, at::kLong)));
      }
    });
}

// The output may be our own part of the input.
TEST(HostsReductionRanks, ScattersInPlace) {
  run_hosts(
      {2, 2},
      [](const Group& world) {
        for (const int64_t count : {3, 50000}) {
          at::Tensor x = at::ones({4 * count}) * (world.rank() + 1);
          const at::Tensor own =
              x.slice(0, world.rank() * count, (world.rank() + 1) * count);
          reduce_scatter(world, own, x);
          EXPECT_TRUE(testing::same(own, at::full({count}, 10.0F)));
        }
      },
      {.chain_bytes = 4096});
}

}  // namespace
}  // namespace trireme::comm
