#include "trireme/bench/rpc.h"

#include <cstdlib>

#include "bench_run.h"
#include "trireme/core/error.h"
#include "trireme/net/tls.h"
#include "trireme/testing/check.h"

namespace trireme::bench {
namespace {

TEST(BenchRpc, NamesItsCasesWhenNoneFits) {
  try {
    bench_rpc({.only = "no such case"});
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(testing::contains(error.what(), "500 async calls of 4 B"));
  }
}

// Without --check: what a busy machine reaches is not the question.
TEST(BenchRpcProcs, MeasuresEveryCaseWithoutAPeer) {
  const launch::ChildResult result = run_bench(
      {"rpc", "--quick", "--rounds", "1"}, {{"TRIREME_PYTHON", "/no/python"}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const RpcCase& one : rpc_cases(net::has_tls(), 5))
    EXPECT_TRUE(testing::contains(result.out, one.name)) << one.name;
}

TEST(BenchRpcProcs, SaysWhyThereIsNoPeer) {
  expect_no_peer({"rpc", "--check", "--rounds", "1", "--case", "echo 4 B"});
}

TEST(BenchRpcProcs, MeasuresThePeerToo) {
  if (std::getenv("TRIREME_PYTHON") == nullptr) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << "TRIREME_PYTHON is not set";
    GTEST_SKIP() << "TRIREME_PYTHON is not set";
  }
  const BenchReport report =
      bench_rpc({.only = "500 async", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_FALSE(report.records.empty());
  EXPECT_EQ(report.no_peer, "");
  for (const Record& record : report.records)
    EXPECT_GT(record.ratio().value_or(0), 0) << record.name;
}

}  // namespace
}  // namespace trireme::bench
