#include "trireme/bench/train.h"

#include <set>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchTrain, CasesHaveNamesAndGoals) {
  std::set<std::string> names;
  for (const TrainCase& one : train_cases({})) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    // What is compared with the program itself cannot be better than that.
    const bool own = one.kind == "crowd" || one.kind == "layout";
    EXPECT_GT(one.goal, own ? 0.5 : 1) << one.name;
    EXPECT_GT(one.job.repetitions, 0) << one.name;
    EXPECT_GE(one.plan.rounds, own ? 3 : 7) << one.name;
  }
  for (const TrainCase& one : train_cases({.quick = true}))
    EXPECT_LE(one.plan.budget, std::chrono::seconds(15)) << one.name;
  for (const TrainCase& one : train_cases({.quick = true, .rounds = 40}))
    EXPECT_EQ(one.plan.rounds, 40) << one.name;
}

TEST(BenchTrain, CountsTheTokensOfARepetition) {
  EXPECT_EQ(tokens_of({.op = "step", .sequence = 10, .batch = 3}), 30);
  EXPECT_EQ(tokens_of({.op = "sample", .prompt = 4, .new_tokens = 5}), 5);
}

TEST(BenchTrain, NamesTheCasesWhenNoneIsMeant) {
  EXPECT_THROW(bench_train({.only = "fly"}), InvalidArgument);
}

TEST(BenchTrainProcs, MeasuresSampling) {
  const BenchReport report =
      bench_train({.only = "sampling", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 1U);
  EXPECT_EQ(report.records[0].bench, "train");
  EXPECT_EQ(report.records[0].unit, "tokens/s");
  EXPECT_EQ(report.records[0].ours.rounds.size(), 1U);
  EXPECT_GT(report.records[0].our_value(), 0);
}

}  // namespace
}  // namespace trireme::bench
