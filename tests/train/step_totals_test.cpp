#include "trireme/train/step_totals.h"

#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "trireme/comm/init.h"

namespace trireme::train {
namespace {

TEST(StepTotalsRanks, PutsTheRanksTogether) {
  comm::run_local(4, [](const comm::Group& world) {
    const int rank = world.rank();
    const RankStep mine{
        .outcome =
            {.loss = 1.0 + rank,
             .busy_s = 0.5,
             .start_ns = 1'000'000'000 + rank,
             .end_ns = 2'000'000'000 - rank},
        .peak_bytes = 100 * rank,
        .has_loss = rank % 2 == 1,
        .stop = rank == 2};
    const StepTotals totals = total(world, {.pp = 2, .dp = 2}, mine);
    EXPECT_DOUBLE_EQ(totals.loss, 3);  // of ranks 1 and 3
    EXPECT_NEAR(totals.bubble, 0.5, 1e-6);
    EXPECT_EQ(totals.peak_bytes, 300);
    EXPECT_TRUE(totals.stop);
    EXPECT_DOUBLE_EQ(
        mean_loss(world, {.pp = 2, .dp = 2}, 10.0 * rank, rank % 2 == 1), 20);
  });
}

TEST(StepTotalsRanks, OneRanksNaNIsEverybodys) {
  const double nan = std::nan("");
  for (const auto& [loss, norm, finite] :
       {std::tuple{1.0, 1.0, true}, {nan, 1.0, false}, {1.0, nan, false}})
    comm::run_local(
        2, [&, loss = loss, norm = norm, finite = finite](const comm::Group& world) {
          const bool mine = world.rank() == 1;
          const StepTotals totals = total(
              world,
              {.pp = 1, .dp = 2},
              {.outcome = {.loss = mine ? loss : 1, .grad_norm = mine ? norm : 1},
               .has_loss = true});
          EXPECT_EQ(totals.finite, finite);
        });
}

// The clock of every other rank is an hour ahead: it says when, but not how long.
TEST(StepTotalsRanks, ClocksOfHostsMayDiffer) {
  comm::run_local(2, [](const comm::Group& world) {
    const int64_t ahead = world.rank() * int64_t{3600} * 1'000'000'000;
    const RankStep mine{
        .outcome = {
            .busy_s = 0.75,
            .start_ns = 1'000'000'000 + ahead,
            .end_ns = 2'000'000'000 + ahead}};
    EXPECT_NEAR(total(world, {.pp = 2, .dp = 1}, mine).bubble, 0.25, 1e-6);
  });
}

}  // namespace
}  // namespace trireme::train
