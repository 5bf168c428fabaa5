#include "trireme/rpc/agent_core.h"

#include <atomic>

#include "worlds.h"

namespace trireme::rpc {
namespace {

// Each waits for room behind those that wait before it.
TEST(AgentCoreRanks, WhoWaitsForRoomGetsIt) {
  FunctionTable functions;
  functions.add("add", [](int a, int b) { return a + b; });
  lead_world(
      2,
      {.functions = functions,
       .edit = [](AgentOptions& options) { options.calls_per_worker = 1; }},
      [](Agent& agent) {
        std::atomic<int> sum{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
          threads.emplace_back([&] {
            for (int j = 0; j < 50; ++j)
              sum += agent.to(1, {.timeout = std::chrono::seconds(10)})
                         .call<int>("add", j, 1);
          });
        for (std::thread& thread : threads)
          thread.join();
        EXPECT_EQ(sum.load(), 8 * (50 * 49 / 2 + 50));
      });
}

TEST(AgentCoreRanks, NoRoomUntilTheDeadline) {
  Event go;
  FunctionTable functions;
  functions.add("wait", [&go] { go.wait(); });
  functions.add("nothing", [] {});
  lead_world(
      2,
      {.functions = functions,
       .edit = [](AgentOptions& options) { options.calls_per_worker = 2; }},
      [&](Agent& agent) {
        std::vector<Future<void>> waiting;
        waiting.push_back(agent.to(1).async<void>("wait"));
        waiting.push_back(agent.to(1).async<void>("wait"));
        const std::string message = message_of<TimeoutError>(
            [&] { agent.to(1, {.timeout = milliseconds(50)}).call<void>("nothing"); });
        EXPECT_TRUE(contains(
            message,
            "expected room for one more call to worker worker1, got 2 of 2 calls "
            "and "));
        agent.to(0).call<void>("nothing");  // each worker has room of its own
        go.set();
        all(std::move(waiting)).get();
        agent.to(1).call<void>("nothing");
      });
}

// A call inside of a call is cancelled with it, on whatever worker that is.
TEST(AgentCoreRanks, CancellingReachesNestedCalls) {
  Event begun, seen;
  FunctionTable functions;
  functions.add("pass", [](int left) {
    const int next = this_agent().me().id + 1;
    if (left > 0)
      return this_agent().to(next).call<int>("pass", left - 1);
    return this_agent().to(next).call<int>("last");
  });
  functions.add("last", [&] {
    const CancelRegistration told =
        this_call()->cancel.on_cancel([&](const std::string&) { seen.set(); });
    begun.set();
    EXPECT_TRUE(seen.wait());
    return 1;
  });
  lead_world(4, {.functions = functions}, [&](Agent& agent) {
    const Future<int> call = agent.to(1).async<int>("pass", 1);
    EXPECT_TRUE(begun.wait());
    EXPECT_FALSE(seen.is_set());
    EXPECT_TRUE(call.cancel());
    EXPECT_TRUE(contains(message_of<Cancelled>([&] { call.get(); }), "[rpc]"));
    EXPECT_TRUE(seen.wait());
  });
}

// A function that lets its own calls go, for another call to wait for, is over: what
// it has begun goes on.
TEST(AgentCoreRanks, CallsOutliveTheCallThatHasBegunThem) {
  Event go, done;
  FunctionTable functions;
  functions.add("begin", [] {
    const auto left_alone = this_agent().to(0).async<void>("work");
    EXPECT_FALSE(left_alone.ready());
  });
  functions.add("work", [&] {
    EXPECT_TRUE(go.wait());
    EXPECT_FALSE(this_call()->cancel.cancelled());
    done.set();
  });
  lead_world(2, {.functions = functions}, [&](Agent& agent) {
    agent.to(1).call<void>("begin");
    go.set();
    EXPECT_TRUE(done.wait());
  });
}

TEST(AgentCoreRanks, DeadlinesHoldForNestedCalls) {
  Event told;
  FunctionTable functions;
  functions.add("outer", [] {
    // Far more than is left to this call.
    return this_agent()
        .to(2, {.timeout = std::chrono::hours(1)})
        .call<std::string>("inner");
  });
  functions.add("inner", [&] {
    const auto left = this_call()->deadline.remaining();
    EXPECT_LT(left, milliseconds(301));
    const CancelRegistration late =
        this_call()->cancel.on_cancel([&](const std::string&) { told.set(); });
    EXPECT_TRUE(told.wait());
    return std::string("late");
  });
  lead_world(3, {.functions = functions}, [&](Agent& agent) {
    const auto start = std::chrono::steady_clock::now();
    // The caller's own TimeoutError, or that of the inner call, which comes back.
    const std::string message = message_of<Error>([&] {
      agent.to(1, {.timeout = milliseconds(300)}).call<std::string>("outer");
    });
    EXPECT_TRUE(contains(message, "expected a result of"));
    EXPECT_TRUE(contains(message, "ms, got none; it was told to stop"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_TRUE(told.wait());
  });
}

TEST(AgentCoreRanks, TheAgentsOwnTimeoutIsForCallsThatSayNothingElse) {
  Event go;
  FunctionTable functions;
  functions.add("wait", [&go] { go.wait(); });
  const auto short_time = [](AgentOptions& options) {
    options.timeout = milliseconds(60);
  };
  lead_world(2, {.functions = functions, .edit = short_time}, [&](Agent& agent) {
    for (int worker = 0; worker < 2; ++worker) {
      const auto expect_late = [](const std::function<void()>& call) {
        EXPECT_TRUE(contains(message_of<TimeoutError>(call), "within 60 ms"));
      };
      const Caller there = agent.to(worker);
      expect_late([&] { there.call<void>("wait"); });
      expect_late([&] { there.async<void>("wait").get(); });
      expect_late([&] { there.remote<void>("wait").made().get(); });
      const auto patient =
          agent.to(worker, {.timeout = std::chrono::seconds(20)}).async<void>("wait");
      EXPECT_FALSE(patient.wait_for(milliseconds(120)));
      patient.cancel();
    }
    go.set();
  });
}

TEST(AgentCoreRanks, ThereIsNoTimeForACallWithoutAny) {
  Event go;
  FunctionTable functions;
  functions.add("wait", [&go] { go.wait(); });
  lead_world(2, {.functions = functions}, [&](Agent& agent) {
    for (int worker = 0; worker < 2; ++worker)
      EXPECT_TRUE(contains(
          message_of<TimeoutError>([&] {
            agent.to(worker, {.timeout = milliseconds(0)}).call<void>("wait");
          }),
          "within 0 ms"));
    go.set();
    agent.to(1).call<void>("wait");
  });
}

TEST(AgentCoreRanks, TooManyBytesUnderWayWaitForRoom) {
  Event go;
  FunctionTable functions;
  functions.add("wait", [&](const at::Tensor& tensor) {
    go.wait();
    return tensor.numel();
  });
  functions.add("numel", [](const at::Tensor& tensor) { return tensor.numel(); });
  lead_world(
      2,
      {.functions = functions,
       .edit = [](AgentOptions& options) { options.bytes_per_worker = 1 << 20; }},
      [&](Agent& agent) {
        const at::Tensor large = at::zeros({200'000});  // 800 KB
        const auto first = agent.to(1).async<std::int64_t>("wait", large);
        EXPECT_EQ(agent.to(1).call<std::int64_t>("numel", at::zeros({10})), 10);
        EXPECT_TRUE(contains(
            message_of<TimeoutError>([&] {
              (void)agent.to(1, {.timeout = milliseconds(200)})
                  .async<std::int64_t>("numel", large);
            }),
            "expected room for one more call to worker worker1, got 1 of 4096 calls "
            "and "
            "800"));
        go.set();
        EXPECT_EQ(agent.to(1).call<std::int64_t>("numel", large), 200'000);
        EXPECT_EQ(first.get(), 200'000);
        // One alone may be larger.
        EXPECT_EQ(
            agent.to(1).call<std::int64_t>("numel", at::zeros({1'000'000})), 1'000'000);
      });
}

// Who takes less than others is not sent more.
TEST(AgentCoreRanks, EachWorkerHasItsOwnLimit) {
  FunctionTable functions;
  functions.add("numel", [](const at::Tensor& tensor) { return tensor.numel(); });
  functions.add("zeros", [](std::int64_t many) { return at::zeros({many}); });
  functions.add("fetch_zeros", [](std::int64_t many) {
    return this_agent().to(0).call<at::Tensor>("zeros", many).numel();
  });
  lead_world(
      2,
      {.functions = functions,
       .edit =
           [](AgentOptions& options) {
             if (options.rank == 1)
               options.message_bytes = 1 << 20;
           }},
      [](Agent& agent) {
        const auto other = agent.to(1, {.timeout = std::chrono::seconds(20)});
        EXPECT_EQ(other.call<std::int64_t>("numel", at::zeros({200'000})), 200'000);
        EXPECT_TRUE(contains(
            message_of<InvalidArgument>(
                [&] { other.call<std::int64_t>("numel", at::zeros({300'000})); }),
            "expected at most 1048576 bytes for a call of numel"));
        EXPECT_EQ(other.call<std::int64_t>("fetch_zeros", 200'000), 200'000);
        EXPECT_TRUE(contains(
            message_of<RemoteError>(
                [&] { other.call<std::int64_t>("fetch_zeros", 300'000); }),
            "expected at most 1048576 bytes for a result of zeros"));
        EXPECT_EQ(
            agent.to(0).call<std::int64_t>("numel", at::zeros({300'000})), 300'000);
      });
}

// What is refused before it is sent leaves no name behind: the leak check would see it.
TEST(AgentCoreRanks, ARefusedCallLeavesNoName) {
  FunctionTable functions;
  functions.add("length", [](const std::string& words) { return words.size(); });
  lead_world(
      2,
      {.functions = functions,
       .edit = [](AgentOptions& options) { options.message_bytes = 1000; }},
      [](Agent& agent) {
        const std::string long_one(2000, 'x');
        const std::string message = message_of<InvalidArgument>(
            [&] { agent.to(1).remote<std::size_t>("length", long_one); });
        EXPECT_TRUE(
            contains(message, "expected at most 1000 bytes for a call of length"));
        EXPECT_TRUE(agent.references().empty());
        EXPECT_EQ(agent.to(1).call<std::size_t>("length", "abc"), 3u);
      });
}

TEST(AgentCoreRanks, WorkersThatAreNone) {
  lead_world(2, {}, [](Agent& agent) {
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { agent.to("worker11"); }),
        "expected the name of a worker, got \"worker11\"; did you mean worker1?"));
    for (const int number : {-1, 2})
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>([&] { agent.to(number); }),
          "expected the number of a worker, 0 to 1, got " + std::to_string(number)));
  });
}

}  // namespace
}  // namespace trireme::rpc
