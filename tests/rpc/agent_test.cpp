#include "trireme/rpc/agent.h"

#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/rpc/remote_error.h"
#include "trireme/testing/rpc_world.h"

namespace trireme::rpc {
namespace {

using testing::RpcKind;
using testing::run_rpc;

const Function<int(int, int)> add_ints{"add_ints"};

FunctionTable some_functions() {
  FunctionTable functions;
  functions.add(add_ints, [](int a, int b) { return a + b; });
  functions.add("add", [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
  functions.add(
      "fail", [](const std::string& why) -> int { throw std::runtime_error(why); });
  functions.add("nothing", [] {});
  return functions;
}

class AgentRanks : public ::testing::TestWithParam<RpcKind> {};

TEST_P(AgentRanks, EachCallsEach) {
  run_rpc(GetParam(), 3, {.functions = some_functions()}, [](Agent& agent) {
    for (const WorkerInfo& worker : agent.workers()) {
      EXPECT_EQ(agent.to(worker).call(add_ints, 1, worker.id), 1 + worker.id);
      const at::Tensor ones = at::ones({3, 4});
      EXPECT_TRUE(
          at::equal(agent.to(worker).call<at::Tensor>("add", ones, ones), ones * 2));
      agent.to(worker.id).call<void>("nothing");
    }
  });
}

TEST_P(AgentRanks, ManyCallsAtOnce) {
  run_rpc(GetParam(), 2, {.functions = some_functions()}, [](Agent& agent) {
    std::vector<Future<int>> sums;
    for (int i = 0; i < 2000; ++i)
      sums.push_back(agent.to(i % 2).async(add_ints, i, 1));
    for (int i = 0; i < 2000; ++i)
      EXPECT_EQ(sums[static_cast<std::size_t>(i)].get(), i + 1);
  });
}

TEST_P(AgentRanks, WhatAFunctionThrowsComesBack) {
  run_rpc(GetParam(), 2, {.functions = some_functions()}, [](Agent& agent) {
    for (const WorkerInfo& worker : agent.workers())
      try {
        agent.to(worker).call<int>("fail", "bad luck");
        ADD_FAILURE() << "it should throw";
      } catch (const RemoteError& error) {
        EXPECT_EQ(error.worker(), worker.name);
        EXPECT_EQ(error.type(), "std::runtime_error");
        EXPECT_EQ(error.text(), "bad luck");
      }
  });
}

// Answers to calls that came together wait for each other a moment at most.
TEST_P(AgentRanks, OneThatIsSlowHoldsUpNoOther) {
  FunctionTable functions = some_functions();
  const auto open = std::make_shared<Promise<void>>();
  const Future<void> opened = open->future();
  functions.add("wait", [opened] { Future<void>(opened).get(); });
  functions.add("open", [open] { open->set_value(); });
  run_rpc(GetParam(), 2, {.functions = functions}, [](Agent& agent) {
    if (agent.me().id != 0)
      return;
    const auto other = agent.to(1);
    std::vector<Future<int>> quick;
    auto slow = other.async<void>("wait");
    for (int i = 0; i < 100; ++i)
      quick.push_back(other.async(add_ints, i, i));
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(quick[static_cast<std::size_t>(i)].get(), 2 * i);
    EXPECT_FALSE(slow.ready());
    other.call<void>("open");
    slow.get();
  });
}

// Nobody waits: what has gathered leaves by itself.
TEST_P(AgentRanks, CallsLeaveByThemselves) {
  run_rpc(GetParam(), 2, {.functions = some_functions()}, [](Agent& agent) {
    for (const int calls : {1, 7, 300}) {
      std::vector<Future<int>> sums;
      for (int i = 0; i < calls; ++i)
        sums.push_back(agent.to(1 - agent.me().id).async(add_ints, i, 1));
      const Deadline soon = Deadline::after(std::chrono::seconds(20));
      for (const auto& sum : sums)
        while (!sum.ready() && !soon.expired())
          std::this_thread::yield();
      EXPECT_FALSE(soon.expired());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    AgentRanks,
    ::testing::Values(RpcKind::Threads, RpcKind::Processes),
    [](const auto& kind) { return to_string(kind.param); });

}  // namespace
}  // namespace trireme::rpc
