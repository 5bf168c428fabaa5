// The pictures for terminals.
#include "helpers.h"
#include "trireme/sched/draw.h"
#include "trireme/sched/lower.h"

namespace trireme::sched {
namespace {

TEST(DrawGrid, ARowARankAndAColumnAUnit) {
  EXPECT_EQ(
      draw_grid(generate("1F1B", {.ranks = 2, .microbatches = 3}), false),
      "rank 0  0F0 0F1 .   .   0B0     0F2 0B1     .   0B2\n"
      "rank 1  .   1F0 1B0     1F1 1B1     1F2 1B2     .   .\n");
}

TEST(DrawGrid, OverlapsHaveBothHalves) {
  const std::string grid =
      draw_grid(generate("DualPipeV", {.ranks = 2, .microbatches = 4}), false);
  EXPECT_TRUE(contains(grid, "0F3+3B1")) << grid;
}

TEST(DrawGrid, ColoursAddNothingElse) {
  const Schedule schedule = generate("ZB-H1", {.ranks = 3, .microbatches = 4});
  std::string coloured = draw_grid(schedule, true);
  EXPECT_TRUE(contains(coloured, "\x1b[30;46m0F0"));
  for (size_t at; (at = coloured.find('\x1b')) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  // Blanks at the ends of lines aside, which the colours keep.
  std::string plain = draw_grid(schedule, false);
  std::erase(coloured, ' ');
  std::erase(plain, ' ');
  EXPECT_EQ(coloured, plain);
}

TEST(DrawGrid, ShowsEveryComputationOfALoweredScheduleToo) {
  for (const ScheduleInfo& info : all_schedules()) {
    const Schedule schedule = generate(info.name, {.ranks = 3, .microbatches = 6});
    EXPECT_EQ(draw_grid(schedule, false), draw_grid(lower(schedule), false))
        << info.name;
  }
}

TEST(TimeRows, ShowWhatEachRankDoesWhen) {
  const Schedule schedule = generate("1F1B", {.ranks = 2, .microbatches = 2});
  EXPECT_EQ(
      draw_time_rows(simulate(schedule, {.details = true}), 9),
      "rank 0  FF..BB.BB\n"
      "rank 1  .FBBFBB..\n");
}

TEST(TimeRows, NothingIsNothing) {
  EXPECT_EQ(draw_time_rows({}, 10), "");
}

}  // namespace
}  // namespace trireme::sched
