// Whole worlds of workers over sockets, TCP and TLS: connections that break, and
// workers that end, stand still or are killed at any moment.
#include <csignal>
#include <map>
#include <random>
#include <sys/wait.h>

#include "../rpc/cut.h"
#include "../rpc/shelf.h"
#include "../rpc/worlds.h"
#include "trireme/net/job_key.h"
#include "trireme/net/memory_store.h"

namespace trireme::rpc {
namespace {

using testing::Processes;
using testing::RpcProcesses;
using testing::SharedNumber;

// How workers talk; LocalTls is what those of one host do under `trireme run`.
enum class Way { Local, Tcp, Tls, LocalTls };

std::string to_string(Way way) {
  constexpr const char* kNames[] = {"Local", "Tcp", "Tls", "LocalTls"};
  return kNames[static_cast<int>(way)];
}

std::function<void(AgentOptions&)> by_way(Way way, milliseconds lease) {
  const net::JobKey key = net::JobKey::random();
  return [way, lease, key](AgentOptions& options) {
    options.lease = lease;
    options.transport->unix_sockets = way == Way::Local || way == Way::LocalTls;
    if (way == Way::Tls || way == Way::LocalTls)
      options.transport->security = net::Security::job_key(key);
  };
}

class EngineRanks : public ::testing::TestWithParam<Way> {};

// Connections that break lose nothing, and nothing runs twice.
TEST_P(EngineRanks, CutsLoseNothing) {
  std::mutex mutex;
  std::map<int, int> runs;
  FunctionTable functions = tally_functions(std::make_shared<Shelf>());
  functions.add("count", [&](int call, const at::Tensor& tensor) {
    const std::lock_guard lock(mutex);
    ++runs[call];
    return tensor + 1;
  });
  std::atomic<int> cuts{0};
  lead_world(
      2,
      {.functions = functions, .edit = by_way(GetParam(), std::chrono::seconds(20))},
      [&](Agent& agent) {
        std::atomic<bool> over{false};
        std::thread cutter([&] {
          while (!over) {
            std::this_thread::sleep_for(milliseconds(40));
            cuts += cut_connections();
          }
        });
        const Deadline end = Deadline::after(milliseconds(1500));
        std::mt19937 random(7);
        int call = 0;
        while (!end.expired()) {
          std::vector<Future<at::Tensor>> sums;
          const at::Tensor tensor = at::ones({random() % 4 == 0 ? 200000 : 10});
          for (int i = 0; i < 20; ++i)
            sums.push_back(agent.to(1).async<at::Tensor>("count", call++, tensor));
          const auto tally = agent.to(1).remote<std::unique_ptr<Tally>>("make", call);
          for (const auto& sum : sums)
            EXPECT_TRUE(at::equal(sum.get(), tensor + 1));
          EXPECT_EQ(tally.call(&Tally::value), call);
        }
        over = true;
        cutter.join();
        EXPECT_EQ(static_cast<int>(runs.size()), call);
        EXPECT_GT(call, 100);
      });
  for (const auto& [call, times] : runs)
    EXPECT_EQ(times, 1) << "call " << call;
  EXPECT_GT(cuts.load(), 10);
  EXPECT_TRUE(soon([] { return Tally::alive().load() == 0; }));
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    EngineRanks,
    ::testing::Values(Way::Local, Way::Tcp, Way::Tls, Way::LocalTls),
    [](const auto& way) { return to_string(way.param); });

// What one worker of a world does that loses one of its number.
class Traffic {
 public:
  Traffic(Agent& agent, unsigned seed)
      : agent_(agent), random_(seed), victim_lost_(false) {}

  void step(int victim) {
    try {
      act();
    } catch (const PeerError& error) {
      victim_lost_ = victim_lost_ || error.rank() == victim;
    } catch (const TimeoutError&) {
    } catch (const RemoteError& error) {
      // What another has met that way.
      EXPECT_TRUE(
          contains(error.type(), "PeerError") || contains(error.type(), "Timeout") ||
          contains(error.type(), "Cancelled"))
          << error.what();
    }
  }
  // Whatever comes of it.
  void try_step() {
    try {
      act();
    } catch (const Error&) {
    }
  }
  bool victim_lost() const { return victim_lost_; }
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    RRef<Tally> tally;
    int start = 0;
  };
  int anyone() { return static_cast<int>(random_() % agent_.workers().size()); }
  Caller to_anyone() { return agent_.to(anyone(), {.timeout = milliseconds(3000)}); }

  void act() {
    const std::size_t which = kept_.empty() ? 0 : random_() % kept_.size();
    switch (kept_.empty() ? 0 : random_() % 6) {
      case 0: {
        const int start = static_cast<int>(random_() % 100000);
        kept_.push_back(
            {to_anyone().remote<std::unique_ptr<Tally>>("make", start), start});
        return;
      }
      case 1:
        EXPECT_EQ(
            kept_[which]
                .tally.with({.timeout = milliseconds(3000)})
                .call(&Tally::value),
            kept_[which].start);
        return;
      case 2: {
        const Kept kept = kept_[which];
        const auto back = to_anyone().call<RRef<Tally>>(
            "pass", kept.tally, std::vector<int>{anyone(), anyone()});
        EXPECT_EQ(back.reference()->id(), kept.tally.reference()->id());
        return;
      }
      case 3:
        // Nobody waits.
        (void)to_anyone().async<RRef<Tally>>(
            "pass", kept_[which].tally, std::vector<int>{anyone()});
        return;
      case 4:
        EXPECT_EQ(
            to_anyone().call<int>("value_of", kept_[which].tally), kept_[which].start);
        return;
      default:
        kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }

  Agent& agent_;
  std::mt19937 random_;
  std::vector<Kept> kept_;
  bool victim_lost_;
};

// Agents that end in the midst of all, one after the other, take all with them.
TEST(EngineEndRanks, AbruptEndsAtAnyMoment) {
  constexpr int kWorkers = 4;
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const auto store = std::make_shared<net::MemoryStore>();
    const testing::RpcWorldOptions options{
        .functions = tally_functions(std::make_shared<Shelf>()),
        .edit = by_way(Way::Local, std::chrono::seconds(20))};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kWorkers; ++rank)
      threads.emplace_back([&, rank] {
        Agent agent(testing::rpc_worker(options, store, rank, kWorkers));
        std::mt19937 random(seed * 100 + static_cast<unsigned>(rank));
        Traffic traffic(agent, static_cast<unsigned>(random()));
        const Deadline end = Deadline::after(milliseconds(5 + random() % 60));
        while (!end.expired())
          traffic.try_step();
        if (random() % 2 == 0)
          agent.abort("the test says so");
      });
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_TRUE(soon([] { return Tally::alive().load() == 0; }))
        << Tally::alive().load();
  }
}

// Those that are left go on, and hold nothing of the dead one, nor keep what it held.
void kill_one(unsigned seed, Way way) {
  std::mt19937 random(seed);
  constexpr int kWorkers = 4;
  const int victim = static_cast<int>(random() % kWorkers);
  const SharedNumber clean;
  RpcProcesses world(
      kWorkers,
      {.functions = tally_functions(std::make_shared<Shelf>()),
       .edit = by_way(way, milliseconds(700))});
  for (int rank = 0; rank < kWorkers; ++rank)
    world.start([&](Agent& agent) {
      Traffic traffic(agent, seed * 10 + static_cast<unsigned>(agent.me().id));
      const Deadline end = Deadline::after(std::chrono::seconds(20));
      while (!traffic.victim_lost() && !end.expired())
        traffic.step(victim);
      EXPECT_TRUE(traffic.victim_lost());
      traffic.clear();
      EXPECT_TRUE(soon([&] { return agent.outstanding().empty(); }));
      ++*clean;
      EXPECT_TRUE(soon([&] { return *clean >= kWorkers - 1; }));
      EXPECT_TRUE(soon([&] { return agent.references().empty(); }));
      EXPECT_TRUE(soon([] { return Tally::alive().load() == 0; }));
      for (const std::string& line : agent.references())
        ADD_FAILURE() << line;
      ++*clean;
      EXPECT_TRUE(soon([&] { return *clean >= 2 * (kWorkers - 1); }));
      return testing::kNoticed;
    });
  std::this_thread::sleep_for(milliseconds(200 + random() % 300));
  world.processes().kill(static_cast<std::size_t>(victim), SIGKILL);
  testing::expect_noticed(world.processes().wait(std::chrono::seconds(40)), victim);
}

class EngineProcs : public ::testing::TestWithParam<Way> {};

TEST_P(EngineProcs, KillsAtAnyMoment) {
  const unsigned first = 10 * static_cast<unsigned>(GetParam());
  for (unsigned seed = first; seed < first + 4; ++seed) {
    SCOPED_TRACE(seed);
    kill_one(seed, GetParam());
  }
}

// One that stands still for less than the lease is only slow.
TEST_P(EngineProcs, AShortStopLosesNothing) {
  const SharedNumber stopped;
  RpcProcesses world(
      3,
      {.functions = tally_functions(std::make_shared<Shelf>()),
       .edit = by_way(GetParam(), std::chrono::seconds(20))});
  for (int rank = 0; rank < 3; ++rank)
    world.start([&](Agent& agent) {
      {
        Traffic traffic(agent, static_cast<unsigned>(agent.me().id));
        const Deadline end = Deadline::after(std::chrono::seconds(20));
        for (int i = 0; (*stopped == 0 || i < 100) && !end.expired(); ++i)
          traffic.step(-1);
      }
      agent.shutdown({.timeout = std::chrono::seconds(20), .leaks = Leaks::Refuse});
      return 0;
    });
  std::this_thread::sleep_for(milliseconds(200));
  world.processes().kill(1, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(500));
  world.processes().kill(1, SIGCONT);
  ++*stopped;
  testing::expect_good_ends(world.processes().wait(std::chrono::seconds(40)));
}

// For longer than the lease all that was shared is void on both sides; what comes later
// works as before.
TEST_P(EngineProcs, ALongStopVoidsWhatWasShared) {
  const SharedNumber phase;
  FunctionTable functions = tally_functions(std::make_shared<Shelf>());
  functions.add("nap", [] {
    const Blocking blocking;
    std::this_thread::sleep_for(milliseconds(300));
    return 5;
  });
  RpcProcesses world(
      2, {.functions = functions, .edit = by_way(GetParam(), milliseconds(500))});
  for (int rank = 0; rank < 2; ++rank)
    world.start([&](Agent& agent) {
      const Caller other = agent.to(1 - agent.me().id);
      {
        const auto tally = other.remote<std::unique_ptr<Tally>>("make", 1);
        EXPECT_EQ(tally.call(&Tally::value), 1);
        // What is under way: one that may run twice, and one that may not.
        const auto once = other.async<int>("nap");
        const auto again = agent.to(other.to(), {.idempotent = true}).async<int>("nap");
        ++*phase;
        EXPECT_TRUE(soon([&] { return tally.lost(); }));
        // The answer to the one that stood still may have come by then.
        if (agent.me().id == 0) {
          EXPECT_THROW(once.get(), PeerError);
        }
        EXPECT_EQ(again.get(), 5);
        EXPECT_THROW(tally.call(&Tally::value), PeerError);
        EXPECT_TRUE(soon([] { return Tally::alive().load() == 0; }));
      }
      ++*phase;
      EXPECT_TRUE(soon([&] { return *phase == 4; }));
      EXPECT_EQ(other.remote<std::unique_ptr<Tally>>("make", 2).call(&Tally::value), 2);
      agent.shutdown({.timeout = std::chrono::seconds(20), .leaks = Leaks::Refuse});
      return 0;
    });
  EXPECT_TRUE(soon([&] { return *phase >= 2; }));
  world.processes().kill(1, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(1500));
  world.processes().kill(1, SIGCONT);
  testing::expect_good_ends(world.processes().wait(std::chrono::seconds(40)));
}

// Returns when all threads of a child stand still.
void stop_child(pid_t child) {
  ::kill(child, SIGSTOP);
  EXPECT_TRUE(soon([child] {
    siginfo_t stopped{};
    return ::waitid(P_PID, static_cast<id_t>(child), &stopped, WSTOPPED | WNOHANG) ==
               0 &&
           stopped.si_pid == child;
  }));
}

// What is asked of it ends by its deadline; the value comes when it goes on.
TEST_P(EngineProcs, ARemoteValueOfOneThatStandsStillIsLate) {
  const SharedNumber phase;
  FunctionTable functions = tally_functions(std::make_shared<Shelf>());
  functions.add("four", [] { return 4; });
  RpcProcesses world(
      2,
      {.functions = functions, .edit = by_way(GetParam(), std::chrono::seconds(20))});
  for (int rank = 0; rank < 2; ++rank)
    world.start([&](Agent& agent) {
      if (agent.me().id == 0) {
        const Caller hasty = agent.to(1, {.timeout = milliseconds(100)});
        agent.to(1).remote<std::unique_ptr<Tally>>("make", 1).made().get();
        ++*phase;
        EXPECT_TRUE(soon([&] { return *phase == 2; }));
        const auto tally = hasty.remote<std::unique_ptr<Tally>>("make", 5);
        EXPECT_THROW(tally.made().get(), TimeoutError);
        EXPECT_THROW(
            tally.with({.timeout = milliseconds(100)}).call(&Tally::value),
            TimeoutError);
        const auto number = hasty.remote<int>("four");
        EXPECT_THROW(number.made().get(), TimeoutError);
        EXPECT_THROW(number.to_here({.timeout = milliseconds(100)}), TimeoutError);
        ++*phase;
        EXPECT_EQ(agent.to(1).remote<int>("four").to_here(), 4);
      }
      agent.shutdown({.timeout = std::chrono::seconds(20), .leaks = Leaks::Refuse});
      return 0;
    });
  EXPECT_TRUE(soon([&] { return *phase == 1; }));
  stop_child(world.processes().pid(1));
  ++*phase;
  EXPECT_TRUE(soon([&] { return *phase == 3; }));
  world.processes().kill(1, SIGCONT);
  testing::expect_good_ends(world.processes().wait(std::chrono::seconds(40)));
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    EngineProcs,
    ::testing::Values(Way::Local, Way::Tcp, Way::Tls, Way::LocalTls),
    [](const auto& way) { return to_string(way.param); });

}  // namespace
}  // namespace trireme::rpc
