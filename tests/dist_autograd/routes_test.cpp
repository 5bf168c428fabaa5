#include "trireme/dist_autograd/routes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

TEST(Routes, AreKeptByWorkerAndNumber) {
  Routes routes;
  const Route route{.sends = {{{0, 1, 0}, true}}, .ends = {}};
  routes.learn({2, 1}, route);
  EXPECT_EQ(routes.find({2, 1}), route);
  EXPECT_FALSE(routes.find({2, 2}));
  EXPECT_FALSE(routes.find({1, 1}));
}

// Whatever a worker may ask for, the others still know.
TEST(Routes, OldOnesAreForgottenWhereTheyBeganFirst) {
  Routes mine, theirs;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const Route beginning{
        .sends = {}, .ends = {{{0, 1, static_cast<uint64_t>(i)}, true}}};
    const std::uint64_t number = mine.next();
    theirs.learn({0, number}, {});
    mine.keep(beginning, number);
    EXPECT_EQ(mine.number_of(beginning), number);
    std::size_t known = 0;
    for (std::uint64_t j = 0; j <= static_cast<std::uint64_t>(i); ++j) {
      const std::uint64_t found =
          mine.number_of({.sends = {}, .ends = {{{0, 1, j}, true}}});
      known += found != 0 ? 1 : 0;
      EXPECT_TRUE(found == 0 || theirs.find({0, found}));
    }
    EXPECT_EQ(known, std::min<std::size_t>(i + 1, Routes::kMostOwn));
  }
  EXPECT_FALSE(theirs.find({0, 1}));
  const std::uint64_t last = mine.next() - 1;
  mine.drop(last);
  EXPECT_EQ(mine.number_of({.sends = {}, .ends = {{{0, 1, 999}, true}}}), 0);
}

// The number of calls that another worker has got, by function.
std::atomic<int> branch{0};

rpc::FunctionTable branching_functions() {
  rpc::FunctionTable table = basic_functions();
  table.add("branch", [](const at::Tensor& x) {
    const rpc::Caller next = rpc::this_agent().to("worker2");
    const at::Tensor a = next.call<at::Tensor>("mul", x, x);
    const at::Tensor b = next.call<at::Tensor>("add", x, x);
    return branch == 0 ? a : branch == 1 ? b : a * b;
  });
  return table;
}

// Messages that a worker has sent to another in passes so far.
std::uint64_t calls_of(const Agent& agent, const std::string& to) {
  return agent.counters(agent.core()->worker(to)).figures().sent;
}

TEST(RoutesRanks, SaveTheMarksWhereTheGraphIsAsBefore) {
  lead_world(3, branching_functions(), [](Agent& agent) {
    branch = 0;
    std::vector<std::uint64_t> calls;
    for (int step = 0; step < 5; ++step) {
      const at::Tensor x = leaf({3});
      const Context context(agent);
      const at::Tensor y = agent.to("worker1").call<at::Tensor>("branch", x);
      const at::Tensor unused = agent.to("worker2").call<at::Tensor>("mul", x, x);
      const std::uint64_t before = calls_of(agent, "worker1");
      context.backward({y.sum()}, {.static_graph = true});
      calls.push_back(calls_of(agent, "worker1") - before);
      EXPECT_TRUE(at::allclose(context.gradient(x), 2 * x));
    }
    EXPECT_EQ(calls, (std::vector<std::uint64_t>{2, 1, 1, 1, 1}));
  });
}

TEST(RoutesRanks, AnotherGraphHereIsLearntAnew) {
  lead_world(3, branching_functions(), [](Agent& agent) {
    branch = 0;
    for (int step = 0; step < 9; ++step) {
      const at::Tensor x = leaf({3});
      const Context context(agent);
      at::Tensor y = agent.to("worker1").call<at::Tensor>("mul", x, x);
      for (int more = 0; more < step % 3; ++more)
        y = agent.to("worker2").call<at::Tensor>("mul", y, x);
      context.backward({y.sum()}, {.static_graph = true});
      const int power = 2 + step % 3;
      EXPECT_TRUE(at::allclose(context.gradient(x), power * x.pow(power - 1)));
    }
  });
}

// Two programs that look alike from here but for the names of what they call.
TEST(RoutesRanks, OtherFunctionsAreAnotherGraph) {
  rpc::FunctionTable table = branching_functions();
  table.add("on", [](const at::Tensor& x) {
    return rpc::this_agent().to("worker2").call<at::Tensor>("mul", x, x);
  });
  table.add("here", [](const at::Tensor& x) { return x * x; });
  lead_world(3, table, [](Agent& agent) {
    for (int step = 0; step < 6; ++step) {
      const at::Tensor x = leaf({3});
      const Context context(agent);
      const at::Tensor y =
          agent.to("worker1").call<at::Tensor>(step % 2 == 0 ? "on" : "here", x);
      const std::uint64_t before = calls_of(agent, "worker1");
      context.backward({y.sum()}, {.static_graph = true});
      EXPECT_EQ(calls_of(agent, "worker1") - before, step < 2 ? 2U : 1U);
      EXPECT_TRUE(at::allclose(context.gradient(x), 2 * x));
    }
  });
}

// Nothing here tells that worker1 goes another way: it says so, and nobody gets a wrong
// gradient. The next backward finds out anew.
TEST(RoutesRanks, AnotherGraphElsewhereIsRefusedByName) {
  lead_world(3, branching_functions(), [](Agent& agent) {
    const auto run = [&](const at::Tensor& x) -> std::pair<std::string, at::Tensor> {
      const Context context(agent);
      const at::Tensor y = agent.to("worker1").call<at::Tensor>("branch", x);
      try {
        context.backward({y.sum()}, {.static_graph = true});
      } catch (const Error& error) {
        return {error.what(), {}};
      }
      return {"", context.gradient(x)};
    };
    const at::Tensor x = leaf({3});
    for (const int next : {0, 1, 2, 0}) {
      branch = next;
      const auto [complaint, nothing] = run(x);
      if (!complaint.empty()) {
        EXPECT_TRUE(contains(complaint, "worker1")) << complaint;
        EXPECT_TRUE(contains(complaint, "static_graph")) << complaint;
      }
      const auto [second, gradient] = run(x);
      EXPECT_EQ(second, "");
      const at::Tensor expected = next == 0   ? 2 * x
                                  : next == 1 ? at::full({3}, 2.0)
                                              : 6 * x.pow(2);
      EXPECT_TRUE(at::allclose(gradient, expected)) << gradient << expected;
    }
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
