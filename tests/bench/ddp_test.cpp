#include "trireme/bench/ddp.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchDdp, TheAddedTimeIsADifferenceOfMedians) {
  // With: 5, 7, 100 (disturbed). Without: 3, 4, 5.
  EXPECT_NEAR(added_time({5e-6, 7e-6, 100e-6, 3e-6, 4e-6, 5e-6}), 3, 1e-9);
}

TEST(BenchDdp, TheAddedTimeStaysAboveZero) {
  EXPECT_EQ(added_time({3e-6, 4e-6}), kLeastAdded);
  EXPECT_EQ(added_time({}), kLeastAdded);
}

TEST(BenchDdp, CasesHaveNamesOfTheirOwnAndKeepNumbersOfRanksTogether) {
  std::set<std::string> names;
  std::vector<int> ranks;
  for (const DdpCase& one : ddp_cases()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_GT(one.job.repetitions, 0);
    if (ranks.empty() || ranks.back() != one.ranks)
      ranks.push_back(one.ranks);
    // What is asked for is asked for in a quick run too.
    EXPECT_FALSE(one.slow && (one.goal || one.limit)) << one.name;
  }
  EXPECT_EQ(std::set<int>(ranks.begin(), ranks.end()).size(), ranks.size());
}

TEST(BenchDdp, NamesTheCasesWhenNoneIsMeant) {
  EXPECT_THROW(bench_ddp({.only = "fly"}), InvalidArgument);
}

TEST(BenchDdpProcs, MeasuresOneCase) {
  const BenchReport report = bench_ddp(
      {.only = "8 parameters", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 1U);
  EXPECT_EQ(report.records[0].bench, "ddp");
  EXPECT_EQ(report.records[0].ours.rounds.size(), 1U);
  EXPECT_GT(report.records[0].our_value(), 0);
}

TEST(BenchDdpProcs, ALimitGoesByTheMedianOfTheRounds) {
  const BenchReport report = bench_ddp(
      {.only = "world of one", .rounds = 3, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 1U);
  EXPECT_TRUE(report.records[0].limit);
  EXPECT_EQ(report.records[0].ours.rounds.size(), 1U);
  EXPECT_EQ(report.records[0].ours.raw.size(), 3U);
}

}  // namespace
}  // namespace trireme::bench
