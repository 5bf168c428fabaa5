#include "trireme/rpc/agent.h"

#include "trireme/net/memory_store.h"
#include "worlds.h"

namespace trireme::rpc {
namespace {

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

INSTANTIATE_TEST_SUITE_P(
    Threads, AgentRanks, ::testing::Values(RpcKind::Threads), [](const auto& kind) {
      return to_string(kind.param);
    });
// Apart, since who forks must not have used libtorch's threads.
INSTANTIATE_TEST_SUITE_P(
    Processes, AgentRanks, ::testing::Values(RpcKind::Processes), [](const auto& kind) {
      return to_string(kind.param);
    });

// What the start of each of some workers is refused with; empty for those that start.
std::vector<std::string> start_errors(
    int started, int workers, const std::function<void(AgentOptions&)>& edit) {
  const auto store = std::make_shared<net::MemoryStore>();
  std::vector<std::string> errors(static_cast<std::size_t>(started));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < started; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Agent agent(testing::rpc_worker({.edit = edit}, store, rank, workers));
      } catch (const InvalidArgument& error) {
        errors[static_cast<std::size_t>(rank)] = text("InvalidArgument", error.what());
      } catch (const TimeoutError& error) {
        errors[static_cast<std::size_t>(rank)] = text("TimeoutError", error.what());
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  return errors;
}

TEST(AgentStartRanks, NamesThatCannotBe) {
  for (const std::string& name :
       {std::string(),
        std::string("a b"),
        std::string("a.b"),
        std::string("a/b"),
        std::string(128, 'x')}) {
    const auto errors =
        start_errors(1, 1, [&](AgentOptions& options) { options.name = name; });
    EXPECT_TRUE(
        contains(errors[0], "InvalidArgument[rpc] expected a worker's name of"));
  }
  EXPECT_EQ(
      start_errors(
          1, 1, [](AgentOptions& options) { options.name = std::string(127, 'x'); })[0],
      "");
}

TEST(AgentStartRanks, ANameTakenTwice) {
  const auto errors = start_errors(3, 3, [](AgentOptions& options) {
    if (options.rank != 1)
      options.name = "twin";
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(
        error, "expected each worker's name once, got \"twin\" from ranks 0 and 2"));
}

TEST(AgentStartRanks, WhoDoesNotComeIsNamed) {
  const auto errors = start_errors(
      2, 4, [](AgentOptions& options) { options.meeting = milliseconds(200); });
  for (const std::string& error : errors)
    EXPECT_TRUE(
        contains(error, "of all 4 workers within 200 ms, got none from ranks 2, 3"));
}

TEST(AgentStartRanks, WorldsThatDoNotFit) {
  const auto sizes = start_errors(2, 2, [](AgentOptions& options) {
    if (options.rank == 1)
      options.world_size = 3;
    options.meeting = std::chrono::seconds(10);
  });
  EXPECT_TRUE(contains(sizes[0] + sizes[1], "got one of"));
  const auto same = start_errors(2, 2, [](AgentOptions& options) {
    options.rank = 0;
    options.meeting = std::chrono::seconds(2);
  });
  EXPECT_TRUE(contains(
      same[0] + same[1], "expected to be the only worker of rank 0, got another one"));
  const auto outside =
      start_errors(1, 1, [](AgentOptions& options) { options.rank = 1; });
  EXPECT_TRUE(contains(
      outside[0], "expected a rank below the size of the world, got rank 1 of 1"));
}

TEST(AgentStartRanks, SeesWhatHasPassed) {
  lead_world(2, {.functions = some_functions()}, [](Agent& agent) {
    for (int i = 0; i < 5; ++i)
      agent.to(1).call<void>("nothing");
    EXPECT_THROW(agent.to(1).call<int>("fail", "x"), RemoteError);
    const auto figures = agent.counters(agent.workers()[1]).figures();
    EXPECT_EQ(figures.sent, 6u);
    EXPECT_EQ(figures.returned(), 5u);
    EXPECT_EQ(figures.failed(), 1u);
    EXPECT_EQ(figures.waiting(), 0u);
    EXPECT_TRUE(agent.outstanding().empty());
  });
}

TEST(AgentStartRanks, ListsTheCallsThatWait) {
  Event go;
  FunctionTable functions;
  functions.add("wait", [&go](int) { go.wait(); });
  lead_world(2, {.functions = functions}, [&](Agent& agent) {
    const auto call = agent.to(1).async<void>("wait", 3);
    ASSERT_EQ(agent.outstanding().size(), 1u);
    EXPECT_TRUE(contains(
        agent.outstanding()[0], "wait(int) -> nothing on worker worker1, call "));
    go.set();
    call.get();
    EXPECT_TRUE(agent.outstanding().empty());
  });
}

TEST(AgentStartRanks, ThisAgentIsForCallsAlone) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { this_agent(); }),
      "expected a thread that works for a call, got one outside of any"));
}

}  // namespace
}  // namespace trireme::rpc
