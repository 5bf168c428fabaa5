#include "trireme/bench/rpc_worker.h"

#include <ATen/ATen.h>

#include "rpc_sides.h"
#include "trireme/core/error.h"
#include "trireme/net/tls.h"

namespace trireme::bench {
namespace {

TEST(BenchRpcWorker, JobsAreLines) {
  const RpcJob job{
      .op = "crowd", .wire = "tls", .quick = true, .clients = 7, .seconds = 1.5};
  const RpcJob same = parse_rpc_job(to_line(job));
  EXPECT_EQ(to_line(same), to_line(job));
  EXPECT_EQ(same.clients, 7);
  EXPECT_EQ(same.seconds, 1.5);
  EXPECT_TRUE(same.quick);
  EXPECT_THROW(parse_rpc_job("{}"), InvalidArgument);
  EXPECT_THROW(parse_rpc_job("rubbish"), InvalidArgument);
}

TEST(BenchRpcWorkerRanks, TimesCalls) {
  std::vector<RpcJob> jobs{
      {.wire = "plain", .repetitions = 3},
      {.wire = "plain", .quick = true, .repetitions = 3},
      {.wire = "plain", .bytes = 1 << 20, .repetitions = 3},
      {.op = "burst", .wire = "plain", .calls = 20, .repetitions = 3}};
  if (net::has_tls()) {
    jobs.push_back({.repetitions = 3});
    jobs.push_back({.bytes = 1 << 20, .repetitions = 3});
    jobs.push_back({.wire = "tls", .repetitions = 3});
  }
  for (const auto& rows : rpc_rows(jobs)) {
    ASSERT_EQ(rows[0].size(), 3u);
    EXPECT_TRUE(rows[1].empty());
    for (const double seconds : rows[0])
      EXPECT_GT(seconds, 0);
  }
}

TEST(BenchRpcWorker, KnowsAnEchoFromAnythingElse) {
  const at::Tensor x = at::arange(5, at::kFloat);
  expect_echo(x, x.clone());
  EXPECT_THROW(expect_echo(x, x.slice(0, 0, 4)), Error);
  EXPECT_THROW(expect_echo(x, x + 1), Error);
  at::Tensor other = x.clone();
  other[4] = 0;
  EXPECT_THROW(expect_echo(x, other), Error);
}

TEST(BenchRpcWorker, RefusesWhatItDoesNotKnow) {
  RpcWorker worker(
      0, {.store = std::make_shared<net::MemoryStore>(), .key = net::JobKey::random()});
  EXPECT_THROW(worker.work({.op = "fly"}), InvalidArgument);
  EXPECT_THROW(worker.work({.wire = "string"}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::bench
