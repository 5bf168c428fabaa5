#include "trireme/bench/rpc_crowd.h"

#include "rpc_sides.h"
#include "trireme/core/error.h"
#include "trireme/net/tls.h"

namespace trireme::bench {
namespace {

double figure(const std::vector<double>& row, CrowdFigure which) {
  return row.at(static_cast<size_t>(which));
}

TEST(BenchRpcCrowd, TheRowSaysWhatHasBecomeOfTheCalls) {
  std::vector<double> times(1000, 1e-3);
  std::fill_n(times.begin(), 11, 5e-3);  // just above one in a hundred
  const auto row = crowd_row(times, 998, 300);
  EXPECT_EQ(figure(row, CrowdFigure::Lost), 2);
  EXPECT_DOUBLE_EQ(figure(row, CrowdFigure::Tail), 5);
  EXPECT_EQ(figure(row, CrowdFigure::Growth), 300);
  EXPECT_DOUBLE_EQ(figure(row, CrowdFigure::Median), 1e3);
}

TEST(BenchRpcCrowd, ACallThatRanTwiceIsNoBetterThanALostOne) {
  EXPECT_EQ(figure(crowd_row({1, 1}, 3, -5), CrowdFigure::Lost), 1);
}

TEST(BenchRpcCrowd, AServerThatShrinksHasNotGrown) {
  EXPECT_EQ(figure(crowd_row({1, 1}, 2, -5), CrowdFigure::Growth), 0);
}

TEST(BenchRpcCrowd, NoCallsAreNoFigures) {
  EXPECT_THROW(crowd_row({}, 0, 0), Error);
}

TEST(BenchRpcCrowdRanks, CallsAtOnceAndLosesNothing) {
  const RpcJob plain{.op = "crowd", .wire = "plain", .clients = 5, .seconds = 0.2};
  RpcJob usual = plain;
  usual.wire = net::has_tls() ? "host" : "plain";
  for (const auto& rows : rpc_rows({plain, usual})) {
    EXPECT_EQ(figure(rows[0], CrowdFigure::Lost), 0);
    EXPECT_GE(figure(rows[0], CrowdFigure::Tail), 1);
    EXPECT_GT(figure(rows[0], CrowdFigure::Median), 0);
    EXPECT_TRUE(rows[1].empty());
  }
}

}  // namespace
}  // namespace trireme::bench
