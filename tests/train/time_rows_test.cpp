#include "trireme/train/time_rows.h"

#include <gtest/gtest.h>

#include "trireme/sched/generate.h"

namespace trireme::train {
namespace {

TEST(TimeRows, ShowWhatEachRankDoesWhen) {
  const sched::Schedule schedule =
      sched::generate("1F1B", {.ranks = 2, .microbatches = 2});
  EXPECT_EQ(
      draw_time_rows(sched::simulate(schedule, {.details = true}), 9),
      "rank 0  FF..BB.BB\n"
      "rank 1  .FBBFBB..\n");
}

TEST(TimeRows, NothingIsNothing) {
  EXPECT_EQ(draw_time_rows({}, 10), "");
}

}  // namespace
}  // namespace trireme::train
