// Schedules as files: what is read, and what is refused with its place.
#include "trireme/sched/csv.h"

#include "helpers.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

std::string csv_refused(const std::string& file) {
  return refusal([&] { parse_csv(file, "my.csv"); });
}

TEST(Csv, WritesARowARank) {
  EXPECT_EQ(
      to_csv(generate("1F1B", {.ranks = 2, .microbatches = 2})),
      "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST(Csv, ReadsOwnersAndCounts) {
  const Schedule schedule = parse_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "v.csv");
  EXPECT_EQ(schedule.rank_of_stage, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(schedule.microbatches, 1);
  EXPECT_EQ(schedule.name, "v.csv");
  EXPECT_FALSE(schedule.lowered);
  EXPECT_TRUE(parse_csv("0F0,0SEND_F0\n1RECV_F0,1F0\n", "x").lowered);
}

TEST(Csv, EndsOfLinesQuotesAndBlanks) {
  const Schedule plain = parse_csv("0F0,,0B0\n1F0,1B0\n", "x");
  for (const char* file :
       {"0F0,,0B0\r\n1F0,1B0\r\n",
        "0F0,,0B0\n1F0,1B0",
        " 0F0 , ,\t0B0\n1F0,1B0\n",
        "\"0F0\",\"\",\"0B0\"\n\"1F0\",\"1B0\"\n",
        "\"0F0\",\"\",\"0B0\"\r\n\"1F0\",\"1B0\"\r\n",
        "0F0,,0B0\n1F0,1B0\n\n\n"})
    EXPECT_TRUE(same(parse_csv(file, "x"), plain)) << file;
}

TEST(Csv, RaggedRowsAreLegalWhereNothingIsMissing) {
  validate(parse_csv("0F0,0B0\n,1F0,,,1B0,,\n", "x"));
  const std::string message =
      refusal([] { validate(parse_csv("0F0,0F1,0B0,0B1\n1F0,1B0\n", "x")); });
  EXPECT_TRUE(contains(message, "at rank 1: 1F1 is missing")) << message;
}

TEST(Csv, ARankCanHaveNothingToDo) {
  const Schedule schedule = parse_csv("0F0,0B0\n\n1F0,1B0\n", "x");
  EXPECT_EQ(schedule.ranks(), 3);
  EXPECT_EQ(schedule.rank_of_stage, (std::vector<int>{0, 2}));
  validate(schedule);
}

TEST(Csv, RefusesAnEmptyFile) {
  for (const char* file : {"", "\n", "\n\n\n", "  \n\r\n"})
    EXPECT_EQ(
        csv_refused(file),
        "[sched] my.csv: expected a row of actions for each rank, got an empty file; "
        "write one line a rank");
}

TEST(Csv, ACellThatIsNoneIsNamedWithItsPlace) {
  EXPECT_EQ(
      csv_refused("0F0,0B0\n1F0,bogus,1B0\n"),
      "[sched] my.csv, line 2, column 5 (cell 2, \"bogus\"): expected a stage from 0 "
      "to "
      "134217727, got \"bogus\"; actions look like 2F0, 3SEND_F1 or "
      "(0F7;7B3)OVERLAP_F_B");
  EXPECT_TRUE(
      contains(csv_refused("0F0\n0F99999999999\n"), "line 2, column 3 (cell 1"));
}

// The column is that of the file, wherever in the cell the mistake is.
TEST(Csv, AMistakeHasOneColumn) {
  const auto expect = [](const std::string& file, const std::string& place) {
    const std::string message = csv_refused(file);
    EXPECT_TRUE(contains(message, place)) << message;
    EXPECT_EQ(message.find("column"), message.rfind("column")) << message;
  };
  expect(
      "0F0 x\n",
      "line 1, column 4 (cell 1, \"0F0 x\"): expected the end of the action");
  expect("0F0,0F-1\n", "line 1, column 7 (cell 2, \"0F-1\"): expected a microbatch");
  expect("0F0,\"0X1\"\r\n", "line 1, column 7 (cell 2, \"0X1\"): expected F, B");
  expect("0F0,  0X1\n", "line 1, column 8 (cell 2, \"  0X1\"): expected F, B");
  expect("0F0,0F\n", "line 1, column 7 (cell 2, \"0F\"): expected a microbatch");
  expect(
      "0F0\n1F0,0F1\n",
      "line 2, column 5 (cell 2, \"0F1\"): expected stage 0 on rank 0");
}

TEST(Csv, AStageHasOneRank) {
  const std::string message = csv_refused("0F0,0B0\n1F0,0F1\n");
  EXPECT_TRUE(contains(
      message,
      "line 2, column 5 (cell 2, \"0F1\"): expected stage 0 on rank 0 (line 1) alone, "
      "got it on rank 1; "))
      << message;
  EXPECT_TRUE(contains(
      csv_refused("0F0,0B0\n(1F0;0B1)OVERLAP_F_B\n"), "expected stage 0 on rank 0"));
}

TEST(Csv, NoStageIsLeftOut) {
  EXPECT_TRUE(contains(
      csv_refused("0F0,0B0\n2F0,2B0\n"),
      "expected stages 0 to 2, got no action of stage 1"));
  EXPECT_TRUE(contains(
      csv_refused("134217727F0\n"), "expected stages up to 4194304, got 134217727; "));
}

TEST(Csv, AWildNumberTakesNoMemory) {
  const std::string message =
      refusal([] { validate(parse_csv("0F134217727,0B0\n1F0,1B0\n", "x")); });
  EXPECT_TRUE(contains(message, "too few for 2 stages with 134217728")) << message;
}

TEST(Csv, RoundTripsEverySchedule) {
  for (const ScheduleInfo& info : all_schedules()) {
    const Schedule schedule = generate(info.name, {.ranks = 4, .microbatches = 8});
    EXPECT_TRUE(same(parse_csv(to_csv(schedule), "x"), schedule)) << info.name;
    const Schedule lowered = lower(schedule);
    EXPECT_TRUE(same(parse_csv(to_csv(lowered), "x"), lowered)) << info.name;
  }
}

}  // namespace
}  // namespace trireme::sched
