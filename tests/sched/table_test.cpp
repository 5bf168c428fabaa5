// The table that messages show.
#include "trireme/sched/table.h"

#include "helpers.h"

namespace trireme::sched {
namespace {

TEST(Table, ShowsASmallScheduleAsAWhole) {
  const Schedule schedule = from_rows({"0F0,0B0", ",1F0,1B0"});
  EXPECT_EQ(
      table_around(schedule, {.rank = 1, .step = 1}),
      "           Rank 0  Rank 1\n"
      "  Step 0:  0F0\n"
      "  Step 1:  0B0     >1F0<\n"
      "  Step 2:          1B0\n");
}

TEST(Table, MarksThePlaceBehindTheEnd) {
  const Schedule schedule = from_rows({"0F0,0B0", "1F0"});
  const std::string table = table_around(schedule, {.rank = 0, .step = -1});
  EXPECT_TRUE(contains(table, "Step 2:  ><\n")) << table;
}

TEST(Table, ShowsTheNeighbourhoodOfALargeOne) {
  const Schedule schedule = generate("1F1B", {.ranks = 40, .microbatches = 100});
  const std::string table = table_around(schedule, {.rank = 30, .step = 150});
  EXPECT_TRUE(contains(table, ">30B"));
  EXPECT_TRUE(contains(table, "Rank 26"));
  EXPECT_TRUE(contains(table, "Rank 33"));
  EXPECT_FALSE(contains(table, "Rank 34"));
  EXPECT_TRUE(contains(table, "Step 144:"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 13);
}

}  // namespace
}  // namespace trireme::sched
