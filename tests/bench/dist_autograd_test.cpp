#include "trireme/bench/dist_autograd.h"

#include <cstdlib>

#include "bench_run.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::bench {
namespace {

TEST(BenchDistAutograd, NamesItsCasesWhenNoneFits) {
  try {
    bench_dist_autograd({.only = "no such case"});
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(testing::contains(error.what(), "fan-out to 8 calls"));
  }
}

// Without --check: what a busy machine reaches is not the question.
TEST(BenchDistAutogradProcs, MeasuresEveryCaseWithoutAPeer) {
  const launch::ChildResult result = run_bench(
      {"dist-autograd", "--quick", "--rounds", "1"},
      {{"TRIREME_PYTHON", "/no/python"}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const GradientCase& one : gradient_cases(false))
    EXPECT_TRUE(testing::contains(result.out, one.name)) << one.name;
}

TEST(BenchDistAutogradProcs, SaysWhyThereIsNoPeer) {
  expect_no_peer({"dist-autograd", "--check", "--rounds", "1", "--case", "multiply"});
}

TEST(BenchDistAutogradProcs, MeasuresThePeerToo) {
  if (std::getenv("TRIREME_PYTHON") == nullptr) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << "TRIREME_PYTHON is not set";
    GTEST_SKIP() << "TRIREME_PYTHON is not set";
  }
  const BenchReport report = bench_dist_autograd(
      {.only = "exact, without TLS", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 4u);
  EXPECT_EQ(report.no_peer, "");
  for (const Record& record : report.records)
    EXPECT_GT(record.ratio().value_or(0), 0) << record.name;
}

}  // namespace
}  // namespace trireme::bench
