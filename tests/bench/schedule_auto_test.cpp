#include "trireme/bench/schedule_auto.h"

#include <gtest/gtest.h>

#include "trireme/sched/costs.h"

namespace trireme::bench {
namespace {

TEST(BenchScheduleAuto, CostsAreTheSameForASeedAndDifferOtherwise) {
  const auto one = drawn_costs(4, 3);
  EXPECT_EQ(sched::to_json(one), sched::to_json(drawn_costs(4, 3)));
  EXPECT_NE(sched::to_json(one), sched::to_json(drawn_costs(4, 4)));
  EXPECT_EQ(one.layers.size(), 24U);
  EXPECT_EQ(one.costs.links.size(), 12U);
}

// All twenty of four ranks, and some of eight, which take longer.
TEST(BenchScheduleAuto, AutoIsNeverWorseAndMostlyBetter) {
  for (const int ranks : {4, 8}) {
    const int seeds = ranks == 4 ? 20 : 4;
    double named = 0, own = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      const auto costs = drawn_costs(ranks, static_cast<uint64_t>(seed));
      const double least = best_named_time(ranks, costs);
      const double best = auto_time(ranks, costs);
      EXPECT_LE(best, least * (1 + 1e-12)) << ranks << " ranks, seed " << seed;
      named += least;
      own += best;
    }
    EXPECT_GT(named / own, 1.02) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace trireme::bench
