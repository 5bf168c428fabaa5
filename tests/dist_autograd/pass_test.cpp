// What goes wrong in a backward, and who hears of it.
#include "trireme/dist_autograd/pass.h"

#include <csignal>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/rpc/remote_error.h"
#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A function whose backward does something first.
std::function<void()> in_backward;
struct Probe : torch::autograd::Function<Probe> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext*, Tensors gradients) {
    in_backward();
    return gradients;
  }
};

rpc::FunctionTable failing_functions() {
  rpc::FunctionTable table = basic_functions();
  table.add("probe", [](const at::Tensor& x) { return Probe::apply(x); });
  // Goes on through the workers until the last one, which has the probe.
  table.add("on", [](const at::Tensor& x, std::int64_t hops) -> at::Tensor {
    if (hops == 0)
      return Probe::apply(x);
    const auto agent = rpc::this_agent();
    const auto next = static_cast<rpc::WorkerId>(agent.me().id + 1);
    return agent.to(next).call<at::Tensor>("on", x * 2, hops - 1);
  });
  return table;
}

std::string complaint_of(
    const ContextView& context,
    const Tensors& losses,
    const BackwardOptions& options = {}) {
  try {
    context.backward(losses, options);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(FaultsRanks, ResultsThatNobodyUses) {
  lead_world(3, failing_functions(), [](Agent& agent) {
    const at::Tensor x = leaf({2});
    const auto run = [&](const BackwardOptions& options) {
      const Context context(agent);
      const at::Tensor used = agent.to("worker1").call<at::Tensor>("mul", x, x);
      const at::Tensor unused = agent.to("worker2").call<at::Tensor>("mul", x, x);
      const std::string complaint = complaint_of(context, {used.sum()}, options);
      EXPECT_TRUE(!complaint.empty() || at::allclose(context.gradient(x), 2 * x));
      return complaint;
    };
    EXPECT_EQ(run({.mode = Mode::Exact}), "");
    const auto start = std::chrono::steady_clock::now();
    const std::string late = run({.mode = Mode::Fast, .timeout = milliseconds(300)});
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(3));
    EXPECT_TRUE(contains(
        late,
        "the arguments of mul(), which worker worker0 has sent to worker worker2"))
        << late;
    EXPECT_TRUE(contains(late, "within 300 ms")) << late;
    EXPECT_TRUE(contains(late, "Mode::Exact")) << late;
  });
}

// Where the send that waits is another worker's, it is named as well.
TEST(FaultsRanks, TheResultOfACallThatNobodyUsesElsewhere) {
  rpc::FunctionTable table = failing_functions();
  table.add("wasteful", [](const at::Tensor& x) {
    const auto unused = rpc::this_agent().to("worker2").call<at::Tensor>("mul", x, x);
    return x * 2;
  });
  lead_world(3, table, [](Agent& agent) {
    const at::Tensor x = leaf({2});
    for (const Mode mode : {Mode::Exact, Mode::Fast}) {
      const Context context(agent);
      const at::Tensor y = agent.to("worker1").call<at::Tensor>("wasteful", x);
      const std::string late = complaint_of(
          context, {y.sum()}, {.mode = mode, .timeout = milliseconds(300)});
      EXPECT_EQ(
          contains(
              late,
              "the arguments of mul(), which worker worker1 has sent to worker "
              "worker2"),
          mode == Mode::Fast)
          << late;
      EXPECT_EQ(late.empty(), mode == Mode::Exact) << late;
    }
  });
}

TEST(FaultsRanks, LossesThatCannotBe) {
  lead_world(2, failing_functions(), [](Agent& agent) {
    const at::Tensor x = leaf({2});
    const Context context(agent);
    EXPECT_TRUE(contains(complaint_of(context, {}), "at least one loss"));
    EXPECT_TRUE(contains(complaint_of(context, {at::Tensor()}), "undefined"));
    EXPECT_TRUE(contains(complaint_of(context, {at::ones({1})}), "needs none"));
    EXPECT_TRUE(contains(complaint_of(context, {x * 2}), "shape [2]"));
    // Nothing of this is left behind.
    const at::Tensor y = agent.to("worker1").call<at::Tensor>("mul", x, x);
    EXPECT_EQ(complaint_of(context, {y.sum()}), "");
  });
}

// Another backward cannot go on at another worker: it must not end there in silence.
TEST(FaultsRanks, AnotherBackwardThanTheContexts) {
  lead_world(2, failing_functions(), [](Agent& agent) {
    const at::Tensor x = leaf({2});
    const Context context(agent);
    const at::Tensor y = agent.to("worker1").call<at::Tensor>("mul", x, x);
    const std::string complaint =
        message_of<InvalidArgument>([&] { y.sum().backward(); });
    EXPECT_TRUE(contains(complaint, "Context::backward()")) << complaint;
  });
}

TEST(FaultsRanks, TensorsOfAnotherContext) {
  lead_world(2, failing_functions(), [](Agent& agent) {
    const at::Tensor x = leaf({2});
    at::Tensor old;
    {
      const Context context(agent);
      old = agent.to("worker1").call<at::Tensor>("mul", x, x);
    }
    const auto other = contexts_of(agent)->create();
    at::Tensor foreign;
    {
      const ContextScope scope(other);
      foreign = agent.to("worker1").call<at::Tensor>("mul", x, x);
    }
    const Context context(agent);
    for (const Mode mode : {Mode::Exact, Mode::Fast}) {
      EXPECT_TRUE(contains(
          complaint_of(context, {old.sum()}, {.mode = mode}),
          "context that has ended"));
      EXPECT_TRUE(contains(
          complaint_of(context, {foreign.sum()}, {.mode = mode, .keep_graph = true}),
          to_string(other->id())));
    }
    contexts_of(agent)->end(other->id());
  });
}

// The error is deep in a chain of workers, and reaches the first with the name of the
// last.
TEST(FaultsRanks, AnErrorOnTheLastOfFourWorkers) {
  lead_world(4, failing_functions(), [](Agent& agent) {
    in_backward = [] { throw std::runtime_error("the weights are gone"); };
    const at::Tensor x = leaf({2});
    const Context context(agent);
    for (const Mode mode : {Mode::Exact, Mode::Fast}) {
      const at::Tensor y =
          agent.to("worker1").call<at::Tensor>("on", x, std::int64_t{2});
      try {
        context.backward({y.sum()}, {.mode = mode});
        FAIL() << "expected an error";
      } catch (const rpc::RemoteError& error) {
        EXPECT_EQ(error.worker(), "worker3");
        EXPECT_TRUE(contains(error.text(), "the weights are gone")) << error.what();
      }
    }
  });
}

// Fifty failures, and then a backward in the same context.
TEST(FaultsRanks, PassesAfterOnesThatFailed) {
  lead_world(3, failing_functions(), [](Agent& agent) {
    std::atomic<bool> fails{true};
    in_backward = [&] {
      if (fails)
        throw std::runtime_error("not yet");
    };
    const at::Tensor x = leaf({2});
    const Context context(agent);
    for (int i = 0; i < 50; ++i) {
      const at::Tensor y =
          agent.to("worker1").call<at::Tensor>("on", x, std::int64_t{1});
      EXPECT_TRUE(contains(complaint_of(context, {y.sum()}), "not yet"));
    }
    fails = false;
    const at::Tensor y = agent.to("worker1").call<at::Tensor>("on", x, std::int64_t{1});
    EXPECT_EQ(complaint_of(context, {y.sum()}), "");
    EXPECT_TRUE(at::allclose(context.gradient(x), 2 * at::ones({2})));
  });
}

// A node ends the context in which it runs: an error, and no crash.
TEST(FaultsRanks, AContextThatEndsDuringItsBackward) {
  lead_world(2, failing_functions(), [](Agent& agent) {
    const auto contexts = contexts_of(agent);
    const auto context = contexts->create();
    in_backward = [&] { contexts->end(context->id()); };
    const at::Tensor x = leaf({2});
    at::Tensor y = x;
    {
      const ContextScope scope(context);
      for (int hop = 0; hop < 100; ++hop)
        y = hop == 50 ? agent.to("worker1").call<at::Tensor>("probe", y)
                      : agent.to("worker1").call<at::Tensor>("add", y, x);
    }
    const std::string complaint =
        complaint_of(ContextView(context), {y.sum()}, {.timeout = seconds(10)});
    EXPECT_TRUE(contains(complaint, "has ended")) << complaint;
  });
}

TEST(FaultsRanks, TwoBackwardsOfOneContextAtOnce) {
  lead_world(2, failing_functions(), [](Agent& agent) {
    std::atomic<bool> inside{false}, go_on{false};
    in_backward = [&] {
      inside = true;
      EXPECT_TRUE(soon([&] { return go_on.load(); }));
    };
    const at::Tensor x = leaf({2});
    const Context context(agent);
    const at::Tensor y = agent.to("worker1").call<at::Tensor>("probe", x);
    const at::Tensor z = agent.to("worker1").call<at::Tensor>("mul", x, x);
    std::thread first([&] {
      const ContextScope scope(context.state());
      EXPECT_EQ(complaint_of(context, {y.sum()}), "");
    });
    EXPECT_TRUE(soon([&] { return inside.load(); }));
    const std::string complaint = complaint_of(context, {z.sum()});
    EXPECT_TRUE(contains(complaint, "one backward at a time")) << complaint;
    go_on = true;
    first.join();
    EXPECT_EQ(complaint_of(context, {z.sum()}), "");
    EXPECT_TRUE(at::allclose(context.gradient(x), 2 * x + 1));
  });
}

// Who is killed in the middle of a backward ends it within two seconds, by name.
TEST(FaultsProcs, AWorkerThatIsKilledInTheMiddle) {
  for (const Mode mode : {Mode::Exact, Mode::Fast}) {
    auto options = with_functions(failing_functions());
    options.timeout = seconds(20);
    testing::RpcProcesses world(3, options);
    testing::SharedNumber done;
    for (int rank = 0; rank < 3; ++rank)
      world.start([mode, &done](Agent& agent) -> int {
        if (agent.me().id == 2)
          in_backward = [] { ::raise(SIGKILL); };
        if (agent.me().id != 0)
          return soon([&] { return *done == 1; }) ? 0 : 5;
        const at::Tensor x = leaf({2});
        const Context context(agent);
        const at::Tensor y =
            agent.to("worker1").call<at::Tensor>("on", x, std::int64_t{1});
        const auto start = std::chrono::steady_clock::now();
        try {
          context.backward({y.sum()}, {.mode = mode});
        } catch (const PeerError& error) {
          const auto took = std::chrono::steady_clock::now() - start;
          *done = 1;
          return took < seconds(2) && error.rank() == 2 &&
                         contains(error.what(), "worker2")
                     ? 0
                     : 3;
        }
        return 4;
      });
    const auto ends = world.processes().wait(seconds(30));
    EXPECT_EQ(ends[0].exit_code, 0);
  }
}

// What a dead trainer has left on a server goes.
TEST(FaultsProcs, ContextsOfADeadWorkerGo) {
  auto options = with_functions(failing_functions());
  testing::RpcProcesses world(2, options);
  world.start([](Agent& agent) -> int {
    const auto contexts = contexts_of(agent);
    if (!soon([&] { return contexts->size() == 3; }))
      return 3;
    return soon([&] { return contexts->size() == 0; }) ? 0 : 4;
  });
  world.start([](Agent& agent) -> int {
    const at::Tensor x = leaf({2});
    for (int i = 0; i < 3; ++i) {
      const ContextScope scope(contexts_of(agent)->create());
      agent.to("worker0").call<at::Tensor>("mul", x, x);
    }
    std::this_thread::sleep_for(milliseconds(300));
    return ::raise(SIGKILL);
  });
  const auto ends = world.processes().wait(seconds(30));
  EXPECT_EQ(ends[0].exit_code, 0);
}

}  // namespace
}  // namespace trireme::dist_autograd
