#include "trireme/dist_autograd/contexts.h"

#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/rpc/remote_error.h"
#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

// How many contexts each worker has a part in, asked from outside of any.
rpc::FunctionTable counting_functions() {
  rpc::FunctionTable table = basic_functions();
  table.add("on", [](const std::string& worker, const at::Tensor& x) {
    return rpc::this_agent().to(worker).call<at::Tensor>("mul", x, x);
  });
  table.add("id", [] { return this_context().id(); });
  table.add("throws", [](const at::Tensor&) -> at::Tensor {
    throw std::runtime_error("no such shape");
  });
  table.add("nothing", [] {});
  return table;
}

// Worlds whose workers' contexts a test looks at from outside.
class ContextsRanks : public ::testing::Test {
 protected:
  void lead(int workers, const testing::RpcBody& body) {
    std::mutex mutex;
    all_.resize(static_cast<std::size_t>(workers));
    std::atomic<int> met{0};
    run_world(workers, counting_functions(), [&](Agent& agent) {
      {
        const std::lock_guard lock(mutex);
        all_[static_cast<std::size_t>(agent.me().id)] = contexts_of(agent);
      }
      ++met;
      if (agent.me().id != 0)
        return;
      EXPECT_TRUE(soon([&] { return met == workers; }));
      body(agent);
      EXPECT_TRUE(soon([&] { return open_anywhere() == 0; }));
    });
    all_.clear();
  }
  std::size_t open(int worker) const {
    return all_[static_cast<std::size_t>(worker)]->size();
  }
  std::size_t open_anywhere() const {
    std::size_t open = 0;
    for (const auto& contexts : all_)
      open += contexts->size();
    return open;
  }

 private:
  std::vector<std::shared_ptr<Contexts>> all_;
};

TEST_F(ContextsRanks, IdsAreUniqueAndSayWhoMadeThem) {
  run_world(3, {}, [](Agent& agent) {
    std::set<ContextId> seen;
    std::uint64_t last = 0;
    for (int i = 0; i < 10; ++i) {
      const Context context(agent);
      EXPECT_EQ(context.id().creator, agent.me().id);
      EXPECT_GT(context.id().number, last);
      last = context.id().number;
      EXPECT_TRUE(seen.insert(context.id()).second);
    }
  });
}

TEST_F(ContextsRanks, EndEverywhereWithTheirMaker) {
  lead(3, [&](Agent& agent) {
    for (const bool with_gradient : {true, false}) {
      {
        const Context context(agent);
        const at::Tensor x = at::rand({2}).set_requires_grad(with_gradient);
        agent.to("worker1").call<at::Tensor>("on", std::string("worker2"), x);
        agent.to("worker2").call<void>("nothing");
        EXPECT_EQ(open(0), 1);
        EXPECT_EQ(open(1), 1);
        EXPECT_EQ(open(2), 1);
      }
      EXPECT_TRUE(soon([&] { return open_anywhere() == 0; }));
    }
  });
}

TEST_F(ContextsRanks, WhoHasEndedOneIsNotTold) {
  lead(2, [&](Agent& agent) {
    {
      const Context context(agent);
      agent.to("worker1").call<at::Tensor>("mul", leaf({2}), leaf({2}));
    }
    EXPECT_TRUE(soon([&] { return open(1) == 0; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(agent.counters(agent.workers()[1]).figures().received, 0u);
  });
}

TEST_F(ContextsRanks, OutlastErrorsOfCalls) {
  lead(2, [](Agent& agent) {
    const Context context(agent);
    const at::Tensor x = leaf({2});
    const auto caller = agent.to("worker1");
    EXPECT_THROW(caller.call<at::Tensor>("throws", x), rpc::RemoteError);
    const at::Tensor y = caller.call<at::Tensor>("mul", x, x);
    context.backward({y.sum()}, {.mode = Mode::Fast});  // waits for nothing that failed
    EXPECT_TRUE(at::allclose(context.gradient(x), 2 * x));
  });
}

TEST_F(ContextsRanks, CallsOutsideOfThemLeaveThemAlone) {
  lead(2, [&](Agent& agent) {
    const at::Tensor x = leaf({2});
    const auto caller = agent.to("worker1");
    caller.call<at::Tensor>("mul", x, x);
    EXPECT_EQ(open_anywhere(), 0);
    const Context context(agent);
    {
      const at::NoGradGuard no_grad;
      EXPECT_FALSE(caller.call<at::Tensor>("mul", x, x.detach()).grad_fn());
    }
    EXPECT_EQ(open(1), 0);
  });
}

// A call that is slower than its context fails, and does not make it anew.
TEST_F(ContextsRanks, WhatComesLateIsRefused) {
  rpc::FunctionTable table = basic_functions();
  std::atomic<bool> go_on{false};
  std::shared_ptr<Contexts> served;
  std::atomic<int> ended{0};
  table.add("slow", [&](const at::Tensor& x) {
    const rpc::Blocking blocking;
    EXPECT_TRUE(soon([&] { return go_on.load(); }));
    try {
      rpc::this_agent().to("worker2").call<at::Tensor>("mul", x, x);
    } catch (const Error& error) {
      ++ended;
      EXPECT_TRUE(contains(error.what(), "has ended")) << error.what();
    }
    return x * x;
  });
  run_world(3, table, [&](Agent& agent) {
    if (agent.me().id == 1)
      served = contexts_of(agent);
    if (agent.me().id != 0)
      return;
    const at::Tensor x = leaf({2});
    rpc::Future<at::Tensor> late;
    {
      const Context context(agent);
      late = agent.to("worker1").async<at::Tensor>("slow", x);
      EXPECT_TRUE(soon([&] { return served && served->size() == 1; }));
    }
    EXPECT_TRUE(soon([&] { return served->size() == 0; }));
    go_on = true;
    EXPECT_TRUE(contains(message_of<Error>([&] { late.get(); }), "has ended"));
    EXPECT_EQ(served->size(), 0);
    EXPECT_EQ(ended, 1);
  });
}

// A context whose end was never heard of goes with the next call of its maker: each
// says which are over.
TEST(ContextsFloor, GoesUpWithTheOldestOpenOne) {
  lead_world(2, counting_functions(), [](Agent& agent) {
    const auto contexts = contexts_of(agent);
    auto first = contexts->create();
    const auto second = contexts->create();
    const auto call = [&](const std::shared_ptr<ContextState>& context) {
      const ContextScope scope(context);
      return agent.to("worker1").call<ContextId>("id");
    };
    EXPECT_EQ(call(first), first->id());
    EXPECT_EQ(call(second), second->id());
    contexts->end(second->id());
    EXPECT_TRUE(contains(message_of<Error>([&] { call(second); }), "has ended"));
    EXPECT_EQ(call(first), first->id());
    contexts->end(first->id());
    const auto third = contexts->create();
    EXPECT_EQ(call(third), third->id());
    EXPECT_TRUE(contains(message_of<Error>([&] { call(first); }), "has ended"));
    contexts->end(third->id());
  });
}

TEST(ContextsOptions, AreNeededOnAllWorkers) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { with_gradients(with_gradients({})); }), "once"));
  testing::run_rpc(
      testing::RpcKind::Threads,
      2,
      {.functions = basic_functions(),
       .edit =
           [](rpc::AgentOptions& options) {
             if (*options.rank == 0)
               options = with_gradients(options);
           }},
      [](Agent& agent) {
        if (agent.me().id == 1) {
          EXPECT_TRUE(contains(
              message_of<InvalidArgument>([&] { contexts_of(agent); }),
              "with_gradients"));
          return;
        }
        const at::Tensor x = leaf({2});
        const Context context(agent);
        const std::string complaint = message_of<Error>(
            [&] { agent.to("worker1").call<at::Tensor>("mul", x, x); });
        EXPECT_TRUE(contains(complaint, "escort")) << complaint;
      });
}

// Two agents in one process: a context belongs to one of them.
TEST_F(ContextsRanks, AreOfOneAgent) {
  std::mutex mutex;
  std::vector<Agent*> agents(2);
  std::atomic<int> done{0};
  run_world(2, basic_functions(), [&](Agent& agent) {
    {
      const std::lock_guard lock(mutex);
      agents[static_cast<std::size_t>(agent.me().id)] = &agent;
    }
    ++done;
    if (agent.me().id != 0)
      return void(soon([&] { return done == 3; }));
    EXPECT_TRUE(soon([&] { return done == 2; }));
    {
      const at::Tensor x = leaf({2});
      const Context context(agent);
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>(
              [&] { agents[1]->to("worker0").call<at::Tensor>("mul", x, x); }),
          "another agent"));
    }
    ++done;
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
