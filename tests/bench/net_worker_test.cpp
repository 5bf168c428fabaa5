#include "trireme/bench/net_worker.h"

#include "net_ends.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

// The rows of both workers.
std::vector<std::vector<double>> rows_of(const NetJob& job) {
  const net::JobKey key = net::JobKey::random();
  std::vector<std::vector<double>> rows(2);
  with_both_sides([&](net::Side side, int port) {
    const int rank = side == net::Side::Dialer ? 0 : 1;
    NetJob here = job;
    here.port = port;
    NetWorker worker(rank, key);
    for (int i = 0; i < 2; ++i)  // what was made for the first is used again
      rows[static_cast<size_t>(rank)] = worker.work(here);
  });
  return rows;
}

TEST(BenchNetWorker, JobsAreLines) {
  const NetJob job{.wire = "key", .op = "idle", .connections = 7, .port = 99};
  EXPECT_EQ(to_line(parse_net_job(to_line(job))), to_line(job));
  EXPECT_EQ(parse_net_job(to_line(job)).connections, 7);
  EXPECT_THROW(parse_net_job("{}"), InvalidArgument);
  EXPECT_THROW(parse_net_job("rubbish"), InvalidArgument);
}

TEST(BenchNetWorker, TimesAnswers) {
  for (const char* wire : {"socket", "plain"}) {
    const auto rows = rows_of({.wire = wire, .repetitions = 4});
    ASSERT_EQ(rows[0].size(), 4u) << wire;
    EXPECT_EQ(rows[1], std::vector<double>(4)) << wire;
    for (const double seconds : rows[0])
      EXPECT_GT(seconds, 0) << wire;
  }
}

TEST(BenchNetWorker, TimesAChainOfAnswers) {
  const auto rows = rows_of({.op = "chain", .repetitions = 4});
  ASSERT_EQ(rows[0].size(), 4u);
  EXPECT_EQ(rows[1], std::vector<double>(4));
  for (const double seconds : rows[0])
    EXPECT_GT(seconds, 0);
}

TEST(BenchNetWorker, TellsWhenASmallMessageLeftAndCame) {
  const auto rows = rows_of({.op = "overtake", .bytes = 8 << 20, .repetitions = 2});
  ASSERT_EQ(rows[0].size(), 2u);
  ASSERT_EQ(rows[1].size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_GT(rows[1][i], rows[0][i]);
}

TEST(BenchNetWorker, WeighsIdleConnections) {
  const auto rows = rows_of({.op = "idle", .connections = 20});
  for (const auto& row : rows)
    ASSERT_EQ(row.size(), 1u);
}

TEST(BenchNetWorker, RefusesWhatItDoesNotKnow) {
  NetWorker worker(0, net::JobKey::random());
  EXPECT_THROW(worker.work({.op = "fly"}), InvalidArgument);
  EXPECT_THROW(worker.work({.wire = "string"}), InvalidArgument);
  EXPECT_THROW(worker.work({.wire = "socket", .op = "idle"}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::bench
