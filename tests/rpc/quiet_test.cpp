#include "trireme/rpc/quiet.h"

#include <atomic>

#include "shelf.h"
#include "trireme/net/memory_store.h"

namespace trireme::rpc {
namespace {

// Runs `body` for each worker on its own thread, and gives what went wrong, by worker.
std::vector<std::string> run_agents(
    int workers,
    const testing::RpcWorldOptions& options,
    const std::function<void(Agent&)>& body,
    std::shared_ptr<net::Store> store = std::make_shared<net::MemoryStore>()) {
  std::vector<std::string> errors(static_cast<std::size_t>(workers));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Agent agent(testing::rpc_worker(options, store, rank, workers));
        body(agent);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  return errors;
}

FunctionTable quiet_functions() {
  FunctionTable functions = tally_functions(std::make_shared<Shelf>());
  functions.add("sleep", [](int time) {
    const Blocking blocking;
    std::this_thread::sleep_for(milliseconds(time));
  });
  functions.add("relay", [](int hops) {
    const int next = (this_agent().me().id + 1) % 4;
    if (hops > 0)
      return this_agent().to(next).call<int>("relay", hops - 1) + 1;
    return 0;
  });
  functions.add("alone", [](int hops) {
    // Nobody waits for these; shutdown() does.
    const int next = (this_agent().me().id + 1) % 4;
    if (hops > 0)
      (void)this_agent().to(next).async<void>("alone", hops - 1);
  });
  return functions;
}

constexpr ShutdownOptions kStrict{
    .timeout = std::chrono::seconds(20), .leaks = Leaks::Refuse};

// Worker 1 has something to do from the time when the call of worker 0 comes, which it
// does when worker 1 has just said how much it has begun.
struct LateArrival {
  std::atomic<int> begun[2] = {0, 0};
  std::atomic<bool> called{false}, answered{false}, busy{false};

  bool idle(int rank) const { return rank == 0 ? !called || answered : !busy.load(); }
  void check(int rank, net::Store& store) {
    if (rank == 0 && !called.exchange(true))
      ++begun[0];  // somebody has called it, and it calls worker 1
    if (rank == 1 && store.try_get("quiet/1/rank/1") && !answered) {
      busy = true;
      begun[1] += 2;  // it answers, and calls again
      answered = true;
      end = std::thread([this] {
        std::this_thread::sleep_for(milliseconds(300));
        busy = false;
      });
    }
  }
  std::thread end;
};

TEST(QuietRanks, WhatBeginsWhileAWorkerLooksIsSeen) {
  LateArrival story;
  net::MemoryStore store;
  bool busy_at_end[2] = {};
  std::thread workers[2];
  for (int rank = 0; rank < 2; ++rank)
    workers[rank] = std::thread([&, rank] {
      wait_until_quiet(
          {.store = store,
           .rank = rank,
           .world_size = 2,
           .idle = [&story, rank] { return story.idle(rank); },
           .activity =
               [&story, rank] {
                 return static_cast<std::uint64_t>(story.begun[rank].load());
               },
           .check = [&story, &store, rank] { story.check(rank, store); }},
          Deadline::after(std::chrono::seconds(20)));
      busy_at_end[rank] = story.busy;
    });
  for (std::thread& worker : workers)
    worker.join();
  ASSERT_TRUE(story.end.joinable()) << "nothing came";
  story.end.join();
  EXPECT_FALSE(busy_at_end[0] || busy_at_end[1]);
}

// A store that is gone from some time on.
class DyingStore : public net::MemoryStore {
 public:
  std::atomic<bool> dead{false};

 protected:
  net::StoreReply call(net::StoreRequest request, Deadline deadline) override {
    if (dead)
      throw Error("[test] expected a store, got none; look at its log");
    return MemoryStore::call(std::move(request), deadline);
  }
};

TEST(Quiet, AStoreThatGoesTooDoesNotHideTheCause) {
  DyingStore store;
  const auto check = [&store] {
    store.dead = true;
    throw PeerError(1, "[test] expected worker 1, but it is gone; look at its log");
  };
  EXPECT_TRUE(contains(
      message_of<PeerError>([&] {
        wait_until_quiet(
            {.store = store,
             .world_size = 2,
             .idle = [] { return true; },
             .activity = [] { return std::uint64_t{0}; },
             .check = check},
            Deadline::after(std::chrono::seconds(20)));
      }),
      "expected worker 1, but it is gone"));
}

// Who has nothing to do serves those that have.
TEST(ShutdownRanks, WaitsForTheSlowest) {
  const auto errors = run_agents(4, {.functions = quiet_functions()}, [](Agent& agent) {
    for (int i = 0; i < agent.me().id * 10; ++i)
      EXPECT_EQ(agent.to(0).call<int>("relay", 5), 5);
    agent.shutdown(kStrict);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "");
}

TEST(ShutdownRanks, WaitsForWorkThatMakesMore) {
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> ends{0};
    FunctionTable functions = quiet_functions();
    functions.add("end", [&ends] { ++ends; });
    functions.add("chain", [](int hops) {
      const int next = (this_agent().me().id + 1) % 4;
      if (hops > 0)
        (void)this_agent().to(next).async<void>("chain", hops - 1);
      else
        (void)this_agent().to(0).async<void>("end");
    });
    const auto errors = run_agents(4, {.functions = functions}, [](Agent& agent) {
      (void)agent.to((agent.me().id + 2) % 4).async<void>("chain", 200);
      agent.shutdown(kStrict);
    });
    for (const std::string& error : errors)
      EXPECT_EQ(error, "");
    EXPECT_EQ(ends.load(), 4);
  }
}

TEST(ShutdownRanks, LeaksAreListedWithWhoHoldsThem) {
  const auto errors = run_agents(3, {.functions = quiet_functions()}, [](Agent& agent) {
    RRef<Tally> tally;
    if (agent.me().id == 0) {
      tally = agent.to(1).remote<std::unique_ptr<Tally>>("make", 1);
      tally.made().get();
    }
    agent.shutdown(kStrict);
  });
  for (const int rank : {0, 1}) {
    const std::string& error = errors[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(contains(error, "expected no references between workers at the end"));
    EXPECT_TRUE(contains(error, "got 1 in the sight of worker worker"));
    // Its owner knows what it is.
    EXPECT_TRUE(contains(
        error,
        rank == 0 ? "of worker worker1 is held by worker worker0"
                  : "of worker worker1, a trireme::rpc::Tally by make, is held by "
                    "worker worker0"));
  }
  EXPECT_EQ(errors[2], "");
}

TEST(ShutdownRanks, LeaksMayBeLoggedOnly) {
  const auto errors = run_agents(2, {.functions = quiet_functions()}, [](Agent& agent) {
    RRef<Tally> tally;
    if (agent.me().id == 0) {
      tally = agent.to(1).remote<std::unique_ptr<Tally>>("make", 1);
      tally.made().get();
    }
    agent.shutdown({.timeout = std::chrono::seconds(20)});
    if (tally) {
      EXPECT_TRUE(
          contains(message_of<Error>([&] { tally.call(&Tally::value); }), "[rpc]"));
    }
  });
  EXPECT_EQ(errors[0] + errors[1], "");
}

// Values on two workers that refer to each other never go by themselves; the check
// tells both.
TEST(ShutdownRanks, CirclesAreFound) {
  struct Node {
    RRef<Node> other;
    void point(RRef<Node> to) { other = std::move(to); }
  };
  FunctionTable functions;
  functions.add("node", [] { return std::make_unique<Node>(); });
  functions.method("point", &Node::point);
  for (const bool broken : {true, false}) {
    const auto errors = run_agents(2, {.functions = functions}, [&](Agent& agent) {
      if (agent.me().id == 0) {
        const auto here = agent.to(0).remote<std::unique_ptr<Node>>("node");
        const auto there = agent.to(1).remote<std::unique_ptr<Node>>("node");
        here.call(&Node::point, there);
        there.call(&Node::point, here);
        if (broken)
          there.call(&Node::point, RRef<Node>());
      }
      agent.shutdown(kStrict);
    });
    for (const std::string& error : errors) {
      EXPECT_EQ(contains(error, "is held by worker worker0"), !broken) << error;
      EXPECT_EQ(contains(error, "is held by worker worker1"), !broken) << error;
    }
  }
}

TEST(ShutdownRanks, TellsWhoIsLateAndWhatItWaitsFor) {
  Event go;
  FunctionTable functions;
  functions.add("wait", [&go] { go.wait(); });
  const auto errors = run_agents(3, {.functions = functions}, [&](Agent& agent) {
    if (agent.me().id == 2) {
      // Late, since it serves a call.
      soon([&] { return go.is_set(); });
      agent.shutdown({.timeout = std::chrono::seconds(10)});
      return;
    }
    Future<void> waiting;
    if (agent.me().id == 0)
      waiting = agent.to(2).async<void>("wait");
    try {
      agent.shutdown({.timeout = milliseconds(agent.me().id == 0 ? 300 : 10000)});
    } catch (...) {
      go.set();
      throw;
    }
  });
  EXPECT_TRUE(contains(
      errors[0],
      "expected all workers to have nothing to do within 300 ms, got worker2 with "
      "something to do; "));
  EXPECT_TRUE(contains(errors[0], "waits for wait() -> nothing on worker worker2"));
  EXPECT_NE(errors[1], "");
  EXPECT_NE(errors[2], "");
}

TEST(ShutdownRanks, OneThatLeavesWithoutIt) {
  const auto errors = run_agents(3, {.functions = quiet_functions()}, [](Agent& agent) {
    if (agent.me().id != 1) {
      agent.to(1).call<void>("alone", 0);
      agent.shutdown(kStrict);
    } else {
      for (const int other : {0, 2})
        EXPECT_TRUE(soon([&] {
          const auto& worker = agent.workers()[static_cast<std::size_t>(other)];
          return agent.counters(worker).figures().answered > 0;
        }));
    }
  });
  EXPECT_EQ(errors[1], "");
  for (const std::size_t rank : {0u, 2u})
    EXPECT_TRUE(
        contains(errors[rank], "worker1 at the end, got none, since it is gone") ||
        contains(errors[rank], "expected all workers to come to an end together"));
}

TEST(ShutdownRanks, TwiceIsOnce) {
  const auto errors = run_agents(2, {.functions = quiet_functions()}, [](Agent& agent) {
    agent.shutdown(kStrict);
    agent.shutdown(kStrict);
    agent.abort("again");
  });
  EXPECT_EQ(errors[0] + errors[1], "");
}

TEST(ShutdownRanks, NothingWorksAfterwards) {
  const auto errors = run_agents(2, {.functions = quiet_functions()}, [](Agent& agent) {
    const RRef<Tally> own = agent.keep(std::make_shared<Tally>(1));
    agent.shutdown(kStrict);
    for (WorkerId worker = 0; worker < 2; ++worker) {
      EXPECT_TRUE(contains(
          message_of<Error>([&] { agent.to(worker).call<void>("alone", 0); }),
          "expected an agent that runs, got one that was shut down: it was shut "
          "down"));
      EXPECT_TRUE(contains(
          message_of<Error>(
              [&] { agent.to(worker).remote<std::unique_ptr<Tally>>("make", 0); }),
          "expected an agent that runs"));
    }
    EXPECT_EQ(own.local_value()->value(), 1);
  });
  EXPECT_EQ(errors[0] + errors[1], "");
}

// The next world may meet at the same place, also after one that has failed.
TEST(ShutdownRanks, WorldsOneAfterTheOther) {
  const auto store = std::make_shared<net::MemoryStore>();
  for (int round = 0; round < 6; ++round) {
    const bool fails = round % 2 == 1;
    const auto errors = run_agents(
        3,
        {.functions = quiet_functions()},
        [&](Agent& agent) {
          if (!fails) {
            EXPECT_EQ(
                agent.to((agent.me().id + 1) % 3)
                    .remote<std::unique_ptr<Tally>>("make", round)
                    .call(&Tally::value),
                round);
          }
          if (!fails)
            agent.shutdown(kStrict);
          else if (agent.me().id != 1)
            agent.shutdown({.timeout = milliseconds(200)});
        },
        store);
    if (fails)
      continue;
    for (const std::string& error : errors)
      EXPECT_EQ(error, "") << "round " << round;
  }
}

TEST(ShutdownRanks, SeveralWorldsInOneProcess) {
  const auto store = std::make_shared<net::MemoryStore>();
  std::vector<std::thread> worlds;
  for (const char* name : {"red", "blue"})
    worlds.emplace_back([&store, name] {
      const auto errors = run_agents(
          3,
          {.functions = quiet_functions(),
           .edit = [name](AgentOptions& options) { options.world = name; }},
          [](Agent& agent) {
            for (int i = 0; i < 50; ++i)
              agent.to(i % 3).remote<std::unique_ptr<Tally>>("make", i).call(
                  &Tally::value);
            agent.shutdown(kStrict);
          },
          store);
      for (const std::string& error : errors)
        EXPECT_EQ(error, "") << name;
    });
  for (std::thread& world : worlds)
    world.join();
}

// Abruptly: what is under way fails on both sides, and soon.
TEST(ShutdownRanks, AnAbruptEndFailsWhatIsUnderWay) {
  Event begun, cancelled, gone;
  FunctionTable functions = quiet_functions();
  functions.add("hang", [&] {
    const CancelRegistration told =
        this_call()->cancel.on_cancel([&](const std::string&) { cancelled.set(); });
    begun.set();
    EXPECT_TRUE(cancelled.wait());
  });
  const auto errors = run_agents(3, {.functions = functions}, [&](Agent& agent) {
    if (agent.me().id == 0) {
      // To the one that ends, and of it.
      const auto tally = agent.to(1).remote<std::unique_ptr<Tally>>("make", 1);
      tally.made().get();
      const Future<void> call = agent.to(1).async<void>("hang");
      EXPECT_TRUE(begun.wait());
      EXPECT_TRUE(contains(
          message_of<PeerError>([&] { call.get(Deadline::after(milliseconds(9000))); }),
          "expected a result of hang from worker worker1, got its loss"));
      EXPECT_TRUE(soon([&] { return tally.lost(); }));
      EXPECT_TRUE(contains(
          message_of<PeerError>([&] { tally.call(&Tally::value); }), "make it anew"));
      message_of<PeerError>([&] { agent.to(1).call<int>("relay", 0); });
      gone.set();
    } else if (agent.me().id == 1) {
      EXPECT_TRUE(begun.wait());
      agent.abort("enough");
    } else {
      EXPECT_TRUE(gone.wait());
    }
  });
  EXPECT_EQ(errors[0] + errors[1] + errors[2], "");
  EXPECT_TRUE(cancelled.is_set());
}

}  // namespace
}  // namespace trireme::rpc
