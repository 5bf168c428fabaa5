#include "trireme/rpc/server.h"

#include <atomic>

#include "worlds.h"

namespace trireme::rpc {
namespace {

// A queue that is full turns calls away; those that it has taken go on.
TEST(ServerRanks, TurnsAwayWhatDoesNotFit) {
  Event go;
  std::atomic<int> runs{0};
  FunctionTable functions;
  functions.add("wait", [&] {
    ++runs;
    while (!go.is_set())  // without Blocking: it keeps the only thread
      std::this_thread::sleep_for(milliseconds(1));
  });
  lead_world(
      2,
      {.functions = functions,
       .edit =
           [](AgentOptions& options) {
             options.pool.threads = 1;
             options.pool.most = 2;
             options.pool.queue = 4;
           }},
      [&](Agent& agent) {
        std::vector<Future<void>> calls;
        for (int i = 0; i < 50; ++i)
          calls.push_back(agent.to(1).async<void>("wait"));
        int full = 0;
        EXPECT_TRUE(soon([&] {
          full = 0;
          for (const auto& call : calls)
            full += call.ready() ? 1 : 0;
          return full >= 40;
        }));
        go.set();
        int turned_away = 0;
        for (const auto& call : calls)
          if (call.failed()) {
            ++turned_away;
            EXPECT_TRUE(contains(
                message_of<Error>([&] { call.get(); }),
                "too many wait there; it has not run: call again later"));
          }
        EXPECT_GE(turned_away, 40);
        EXPECT_LT(turned_away, 50);
        EXPECT_EQ(runs.load(), 50 - turned_away);
        agent.to(1).call<void>("wait");
      });
}

TEST(ServerRanks, ThreadsAreBounded) {
  std::atomic<int> now{0}, most{0};
  FunctionTable functions;
  functions.add("busy", [&] {
    const int mine = ++now;
    for (int seen = most; mine > seen && !most.compare_exchange_weak(seen, mine);) {
    }
    std::this_thread::sleep_for(milliseconds(2));
    --now;
  });
  lead_world(2, {.functions = functions}, [&](Agent& agent) {
    std::vector<Future<void>> calls;
    for (int i = 0; i < 100; ++i)
      calls.push_back(agent.to(1).async<void>("busy"));
    all(std::move(calls)).get();
    EXPECT_LE(most.load(), 4);  // as many as run_rpc allows
    EXPECT_GE(most.load(), 2);
    EXPECT_LE(agent.pool_figures().threads, 5);
  });
}

// More calls inside of calls than threads may ever be: they fail instead of waiting
// for each other until the deadline, and the worker goes on.
TEST(ServerRanks, CallsInsideOfCallsUntilNoThreadIsLeft) {
  FunctionTable functions;
  functions.add("down", [](int hops) -> int {
    if (hops == 0)
      return 0;
    return this_agent().to(1 - this_agent().me().id).call<int>("down", hops - 1) + 1;
  });
  lead_world(
      2,
      {.functions = functions,
       .edit =
           [](AgentOptions& options) {
             options.pool.threads = 2;
             options.pool.most = 6;
           }},
      [](Agent& agent) {
        EXPECT_EQ(agent.to(1).call<int>("down", 7), 7);
        const auto start = std::chrono::steady_clock::now();
        const std::string message =
            message_of<RemoteError>([&] { agent.to(1).call<int>("down", 40); });
        EXPECT_TRUE(contains(message, "trireme::Error"));
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
        // The calls further down, for which nobody waits any more, end, too.
        EXPECT_TRUE(soon([&] {
          const auto again = agent.to(1).async<int>("down", 7);
          return !again.failed() && again.get() == 7;
        }));
      });
}

TEST(ServerRanks, TensorsAndResultsAboveTheLimits) {
  std::atomic<int> runs{0};
  FunctionTable functions;
  functions.add("numel", [&](const at::Tensor& tensor) {
    ++runs;
    return tensor.numel();
  });
  functions.add("zeros", [](int many) { return at::zeros({many}); });
  lead_world(
      2,
      {.functions = functions,
       .edit =
           [](AgentOptions& options) {
             options.message_bytes = 100000;
             options.limits.tensor_bytes = 10000;
           }},
      [&](Agent& agent) {
        EXPECT_EQ(agent.to(1).call<std::int64_t>("numel", at::zeros({2500})), 2500);
        EXPECT_TRUE(contains(
            message_of<RemoteError>(
                [&] { agent.to(1).call<std::int64_t>("numel", at::zeros({2501})); }),
            "10000"));
        EXPECT_TRUE(contains(
            message_of<InvalidArgument>(
                [&] { agent.to(1).call<std::int64_t>("numel", at::zeros({25001})); }),
            "expected at most 100000 bytes for a call of numel"));
        EXPECT_EQ(runs.load(), 1);
        // Results: what the callee may send, and what the caller takes.
        EXPECT_TRUE(contains(
            message_of<InvalidArgument>(
                [&] { agent.to(1).call<at::Tensor>("zeros", 2501); }),
            "10000"));
        EXPECT_TRUE(contains(
            message_of<RemoteError>(
                [&] { agent.to(1).call<at::Tensor>("zeros", 25001); }),
            "expected at most 100000 bytes for a result of zeros"));
        EXPECT_EQ(agent.to(1).call<at::Tensor>("zeros", 10).numel(), 10);
      });
}

// What sends a value makes none.
TEST(ServerRanks, AFetchedValueIsNotKept) {
  FunctionTable functions;
  functions.add("number", [](int number) { return number; });
  lead_world(2, {.functions = functions}, [](Agent& agent) {
    for (WorkerId owner = 0; owner < 2; ++owner) {
      const auto number = agent.to(owner).remote<int>("number", 3);
      const auto kept = agent.to(owner).remote<int>(kFetchName, number, "int");
      EXPECT_TRUE(contains(
          message_of<RemoteError>([&] { kept.made().get(); }),
          "expected to send a value by trireme.fetch, got a call by remote()"));
      EXPECT_THROW(kept.to_here(), Error);
      EXPECT_EQ(number.to_here(), 3);
    }
  });
}

// A quick function runs on the thread that receives, and must not wait there.
TEST(ServerRanks, QuickFunctions) {
  FunctionTable functions;
  functions.add("add", [](int a, int b) { return a + b; }, {.quick = true});
  functions.add(
      "wait",
      [] { return this_agent().to(0).call<int>("add", 1, 2); },
      {.quick = true});
  functions.add(
      "begin",
      [] { return this_agent().to(0).async<int>("add", 1, 2); },
      {.quick = true});
  lead_world(2, {.functions = functions}, [](Agent& agent) {
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(agent.to(1).call<int>("add", i, 1), i + 1);
    EXPECT_TRUE(contains(
        message_of<RemoteError>([&] { agent.to(1).call<int>("wait"); }),
        "expected a function that does not wait on a thread of the network"));
    EXPECT_EQ(agent.to(1).call<int>("begin"), 3);
  });
}

// A call that was cancelled while it stood in the queue does not run.
TEST(ServerRanks, CancelledInTheQueue) {
  Event go, begun;
  std::atomic<int> runs{0};
  FunctionTable functions;
  functions.add("wait", [&] {
    begun.set();
    while (!go.is_set())  // without Blocking: it keeps the only thread
      std::this_thread::sleep_for(milliseconds(1));
  });
  functions.add("count", [&] { ++runs; });
  functions.add("nothing", [] {});
  lead_world(
      2,
      {.functions = functions,
       .edit = [](AgentOptions& options) { options.pool.threads = 1; }},
      [&](Agent& agent) {
        const auto busy = agent.to(1).async<void>("wait");
        EXPECT_TRUE(begun.wait());
        const auto count = agent.to(1).async<void>("count");
        EXPECT_TRUE(count.cancel());
        agent.to(0).call<void>("nothing");
        std::this_thread::sleep_for(milliseconds(50));  // the word is on its way
        go.set();
        busy.get();
        agent.to(1).call<void>("nothing");
      });
  EXPECT_EQ(runs.load(), 0);
}

// Functions may not answer at all: that is an error, too.
TEST(ServerRanks, AFutureThatNobodyKeeps) {
  FunctionTable functions;
  functions.add("forget", [] { return Promise<int>().future(); });
  functions.add("empty", [] { return Future<int>(); });
  lead_world(2, {.functions = functions}, [](Agent& agent) {
    for (WorkerId worker = 0; worker < 2; ++worker) {
      EXPECT_TRUE(contains(
          message_of<RemoteError>([&] { agent.to(worker).call<int>("forget"); }),
          "expected a promise to be kept"));
      EXPECT_TRUE(contains(
          message_of<RemoteError>([&] { agent.to(worker).call<int>("empty"); }),
          "expected a future of something, got an empty one"));
    }
  });
}

// Calls that their caller has left behind: the functions see it.
TEST(ServerRanks, FunctionsSeeThatNobodyWaits) {
  Event begun, seen;
  FunctionTable functions;
  functions.add("work", [&] {
    begun.set();
    while (true) {
      if (this_call()->cancel.cancelled())
        seen.set();
      this_call()->cancel.throw_if_cancelled();
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  for (WorkerId worker = 0; worker < 2; ++worker)
    lead_world(2, {.functions = functions}, [&](Agent& agent) {
      const auto work = agent.to(worker).async<void>("work");
      EXPECT_TRUE(begun.wait());
      EXPECT_TRUE(work.cancel("enough"));
      EXPECT_TRUE(seen.wait());
      message_of<TimeoutError>(
          [&] { agent.to(worker, {.timeout = milliseconds(50)}).call<void>("work"); });
    });
}

}  // namespace
}  // namespace trireme::rpc
