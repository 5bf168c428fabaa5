#include "trireme/bench/launch.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "bench_run.h"
#include "trireme/bench/launch_sides.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchLaunch, NamesItsCasesWhenNoneFits) {
  try {
    bench_launch({.only = "no such case"});
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(
        std::string(error.what()).find("first barrier, 4 ranks"), std::string::npos);
  }
}

TEST(BenchLaunchProcs, MeasuresMemoryAgainstItsLimit) {
  const BenchReport report = bench_launch(
      {.only = "memory, 4 ranks", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 1U);
  EXPECT_EQ(report.records[0].bench, "launch");
  EXPECT_EQ(report.records[0].unit, "KiB");
  EXPECT_EQ(judge(report.records[0]), Verdict::Ok) << to_table(report.records);
}

TEST(BenchLaunchProcs, SaysWhyThereIsNoPeer) {
  expect_no_peer({"launch", "--case", "first barrier", "--rounds", "1", "--check"});
}

TEST(BenchLaunchProcs, TheWorkerIsAWorldOfOneByItself) {
  const launch::ChildResult result = run_bench({"--worker", "launch"});
  EXPECT_TRUE(result.ok()) << launch::failure_text(result);
  EXPECT_TRUE(result.out.starts_with(kBarrierMark)) << result.out;
}

TEST(BenchLaunchPeer, BothSidesReachTheBarrier) {
  if (std::getenv("TRIREME_PYTHON") == nullptr) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << "TRIREME_PYTHON is not set";
    GTEST_SKIP() << "TRIREME_PYTHON is not set";
  }
  const BenchReport report = bench_launch(
      {.only = "first barrier", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 1U);
  EXPECT_EQ(report.no_peer, "");
  EXPECT_TRUE(report.records[0].ratio()) << to_table(report.records);
}

}  // namespace
}  // namespace trireme::bench
