// The schedules with split backwards against listings, and their table of figures.
#include "helpers.h"
#include "trireme/sched/generators.h"
#include "trireme/sched/simulate.h"

namespace trireme::sched {
namespace {

using Rows = std::vector<std::string>;

TEST(GeneratorsSplit, ZbH1) {
  EXPECT_EQ(
      rows_of(generate("ZB-H1", {.ranks = 3, .microbatches = 4})),
      (Rows{
          "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3",
          "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3",
          "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3"}));
}

TEST(GeneratorsSplit, ZbH2) {
  EXPECT_EQ(
      rows_of(generate("ZB-H2", {.ranks = 3, .microbatches = 6})),
      (Rows{
          "0F0,0F1,0F2,0F3,0F4,0I0,0W0,0F5,0I1,0W1,0I2,0W2,0I3,0W3,0I4,0W4,0I5,0W5",
          "1F0,1F1,1F2,1I0,1F3,1I1,1F4,1I2,1W0,1F5,1I3,1W1,1I4,1W2,1I5,1W3,1W4,1W5",
          "2F0,2I0,2F1,2I1,2F2,2I2,2F3,2I3,2F4,2I4,2W0,2F5,2I5,2W1,2W2,2W3,2W4,2W5"}));
}

TEST(GeneratorsSplit, Zbv) {
  EXPECT_EQ(
      rows_of(generate("ZBVZeroBubble", {.ranks = 2, .microbatches = 4})),
      (Rows{
          "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,0W1,3F3,3I3,"
          "3W3,0I2,0W2,0I3,0W3",
          ",1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,2I2,2W2,"
          "1I2,"
          "2I3,1I3,1W2,2W3,1W3"}));
}

TEST(GeneratorsSplit, ZbvWithoutItsVirtualMicrobatches) {
  EXPECT_EQ(
      rows_of(generate("ZBVZeroBubble", {.ranks = 2, .microbatches = 2})),
      (Rows{
          "0F0,0F1,,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,,,,0I1,0W1,,",
          ",1F0,2F0,1F1,2F1,2I0,2W0,,1I0,1W0,,2I1,2W1,1I1,,,1W1,,"}));
}

TEST(GeneratorsSplit, DualPipeV) {
  EXPECT_EQ(
      rows_of(generate("DualPipeV", {.ranks = 2, .microbatches = 4})),
      (Rows{
          "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,"
          "(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,0I3,0W3",
          "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,"
          "(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,1I3,2W3,1W3"}));
}

/// A line of the table: the wall bubble and the most live activations.
struct Figures {
  const char* name;
  int ranks;
  double bubble;
  int64_t peak;
};

TEST(GeneratorsSplit, TableOfBubblesAndPeaks) {
  const Figures table[] = {
      {"ZB-H1", 2, 1, 2},     {"ZB-H1", 3, 2, 3},       {"ZB-H1", 4, 3, 4},
      {"ZB-H1", 6, 5, 6},     {"ZB-H1", 8, 7, 8},       {"ZB-H2", 2, 1, 3},
      {"ZB-H2", 3, 2, 5},     {"ZB-H2", 4, 3, 7},       {"ZB-H2", 6, 5, 11},
      {"ZB-H2", 8, 7, 15},    {"Eager1F1B", 2, 3, 3},   {"Eager1F1B", 3, 6, 5},
      {"Eager1F1B", 4, 9, 7}, {"Eager1F1B", 6, 15, 11}, {"Eager1F1B", 8, 21, 15},
      {"V-Half", 2, 3, 4},    {"V-Half", 3, 5, 4},      {"V-Half", 4, 9, 6},
      {"V-Half", 6, 15, 8},   {"V-Half", 8, 21, 10},    {"V-Min", 2, 3, 4},
      {"V-Min", 3, 9, 4},     {"V-Min", 4, 11, 4},      {"V-Min", 6, 21, 6},
      {"V-Min", 8, 27, 8}};
  for (const Figures& line : table)
    for (const int rounds : {2, 3}) {
      const auto result = simulate(
          generate(
              line.name, {.ranks = line.ranks, .microbatches = rounds * line.ranks}),
          {});
      const std::string where = text(line.name, " P", line.ranks, " M", rounds, "P");
      EXPECT_EQ(result.wall_bubble, line.bubble) << where;
      EXPECT_EQ(
          *std::max_element(
              result.peak_activations.begin(), result.peak_activations.end()),
          line.peak)
          << where;
      if (std::string(line.name) == "ZB-H2") {
        EXPECT_EQ(result.span_bubble, 0) << where;
      }
    }
}

}  // namespace
}  // namespace trireme::sched
