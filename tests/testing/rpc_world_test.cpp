#include "trireme/testing/rpc_world.h"

#include <gtest/gtest.h>

#include "trireme/testing/message.h"

namespace trireme::testing {
namespace {

rpc::FunctionTable keeping_functions() {
  rpc::FunctionTable functions;
  functions.add("number", [] { return 7; });
  return functions;
}

class RpcWorldProcs : public ::testing::TestWithParam<RpcKind> {};

TEST_P(RpcWorldProcs, EveryWorkerRunsTheBody) {
  const SharedNumber runs;
  run_rpc(GetParam(), 3, {.functions = keeping_functions()}, [&](rpc::Agent& agent) {
    EXPECT_EQ(agent.me().name, "worker" + std::to_string(agent.me().id));
    EXPECT_EQ(agent.to((agent.me().id + 1) % 3).call<int>("number"), 7);
    ++*runs;
  });
  EXPECT_EQ(*runs, 3);
}

TEST_P(RpcWorldProcs, AFailureOfOneIsAFailureOfTheWorldAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_ANY_THROW(run_rpc(GetParam(), 2, {}, [](rpc::Agent& agent) {
    if (agent.me().id == 1)
      throw std::runtime_error("bad");
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_P(RpcWorldProcs, ReferencesThatAreLeftAreAFailure) {
  rpc::RRef<int> left;  // one for each process, or of the first thread alone
  EXPECT_ANY_THROW(run_rpc(
      GetParam(), 2, {.functions = keeping_functions()}, [&](rpc::Agent& agent) {
        if (agent.me().id == 0)
          left = agent.to(1).remote<int>("number");
      }));
}

INSTANTIATE_TEST_SUITE_P(
    Threads, RpcWorldProcs, ::testing::Values(RpcKind::Threads), [](const auto& kind) {
      return to_string(kind.param);
    });
// Apart, since who forks must not have used libtorch's threads.
INSTANTIATE_TEST_SUITE_P(
    Processes,
    RpcWorldProcs,
    ::testing::Values(RpcKind::Processes),
    [](const auto& kind) { return to_string(kind.param); });

TEST(RpcProcessesProcs, AreStartedOneByOneAndKilled) {
  RpcProcesses world(2, {.functions = keeping_functions()});
  world.start([](rpc::Agent& agent) {
    while (true)
      try {
        agent.to(1).call<int>("number");
      } catch (const PeerError&) {
        return kNoticed;
      }
  });
  world.start([](rpc::Agent&) -> int {
    while (true)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  world.processes().kill(1, SIGKILL);
  expect_noticed(world.processes().wait(std::chrono::seconds(20)), 1);
}

}  // namespace
}  // namespace trireme::testing
