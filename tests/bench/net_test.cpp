#include "trireme/bench/net.h"

#include "bench_run.h"
#include "trireme/core/error.h"
#include "trireme/net/tls.h"
#include "trireme/testing/check.h"

namespace trireme::bench {
namespace {

TEST(BenchNet, NamesItsCasesWhenNoneFits) {
  try {
    bench_net({.only = "no such case"});
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(testing::contains(error.what(), "64 MiB one way, plain"));
  }
}

// Without --check: what a busy machine reaches is not the question.
TEST(BenchNetProcs, MeasuresEveryCase) {
  const launch::ChildResult result = run_bench({"net", "--rounds", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const NetCase& one : net_cases())
    EXPECT_TRUE(testing::contains(result.out, one.name)) << one.name;
  EXPECT_EQ(testing::contains(result.out, "SHORT (left out)"), !net::has_tls());
  EXPECT_FALSE(testing::contains(result.out, "no peer"));
}

}  // namespace
}  // namespace trireme::bench
