#include "trireme/bench/schedule.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "bench_run.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchSchedule, NamesItsCasesWhenNoneFits) {
  try {
    bench_schedule({.only = "no such case"});
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    for (const char* name :
         {"make and check, 64 ranks x 4 x 512",
          "make and check, 4096 ranks x 2 x 512",
          "memory, 4096 ranks x 2 x 512",
          "a million actions, 1024 ranks; peer: 64",
          "Auto on drawn costs, 4 ranks; peer: best named",
          "making Auto for drawn costs, 8 ranks"})
      EXPECT_NE(what.find(name), std::string::npos) << what;
  }
}

TEST(BenchScheduleProcs, ComparesSizes) {
  const BenchReport report = bench_schedule(
      {.only = "actions, 256 ranks", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 1U);
  const Record& record = report.records[0];
  EXPECT_EQ(record.bench, "schedule");
  EXPECT_EQ(record.unit, "us");
  EXPECT_EQ(record.ours.rounds.size(), 1U);
  EXPECT_EQ(record.peer.rounds.size(), 1U);
  EXPECT_GT(record.ratio().value_or(0), 0);
  EXPECT_EQ(report.no_peer, "");
}

TEST(BenchScheduleProcs, SaysWhyThereIsNoPeer) {
  expect_no_peer(
      {"schedule", "--quick", "--case", "16 ranks", "--rounds", "1", "--check"});
}

TEST(BenchSchedulePeer, IsFasterThanTorch) {
  if (std::getenv("TRIREME_PYTHON") == nullptr)
    GTEST_SKIP() << "TRIREME_PYTHON is not set";
  const BenchReport report = bench_schedule(
      {.quick = true,
       .only = "16 ranks",
       .rounds = 1,
       .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 1U);
  EXPECT_EQ(report.no_peer, "");
  EXPECT_GT(report.records[0].ratio().value_or(0), 1) << to_table(report.records);
}

}  // namespace
}  // namespace trireme::bench
