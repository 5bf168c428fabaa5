// How worlds begin: the launcher's variables, and ranks as threads.
#include "trireme/comm/init.h"

#include <atomic>
#include <list>
#include <mutex>
#include <set>
#include <thread>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "fake_engine.h"
#include "scopes.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/core/log.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::message_of;
using testing::VariableScope;

// No launcher, and nothing that was set for this test run.
class Init : public ::testing::Test {
 protected:
  Init() {
    for (const char* name :
         {"RANK",
          "WORLD_SIZE",
          "LOCAL_RANK",
          "LOCAL_WORLD_SIZE",
          "MASTER_ADDR",
          "MASTER_PORT",
          "OMPI_COMM_WORLD_RANK",
          "OMPI_COMM_WORLD_SIZE",
          "SLURM_PROCID",
          "TRIREME_BACKEND",
          "TRIREME_TIMEOUT"})
      set(name, std::nullopt);
  }
  ~Init() override { set_log_rank(0, 0); }
  void set(const std::string& name, std::optional<std::string> value) {
    variables_.emplace_front(name, std::move(value));  // the last one goes first
  }

 private:
  std::list<VariableScope> variables_;
};

TEST_F(Init, AWorldOfOneNeedsNoVariables) {
  const Group world = init();
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.backend(), "none");
  EXPECT_EQ(world.members(), std::vector<int>{0});
  EXPECT_EQ(world.options().timeout, std::chrono::minutes(5));
  barrier(world);
}

TEST_F(Init, AWorldOfOneMayComeFromALauncher) {
  set("RANK", "0");
  set("WORLD_SIZE", "1");
  EXPECT_EQ(init().backend(), "none");
}

TEST_F(Init, TakesTheTimeoutFromTheVariable) {
  set("TRIREME_TIMEOUT", "2.5");
  EXPECT_EQ(init().options().timeout, milliseconds(2500));
  EXPECT_EQ(init({.timeout = milliseconds(70)}).options().timeout, milliseconds(70));
  set("TRIREME_TIMEOUT", "soon");
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { init(); }), "TRIREME_TIMEOUT"));
}

TEST_F(Init, TakesTheBackendFromTheVariable) {
  set("TRIREME_BACKEND", "none");
  EXPECT_EQ(init().backend(), "none");
  set("TRIREME_BACKEND", "bogus");
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { init(); }), "got \"bogus\""));
  EXPECT_EQ(init({.backend = "none"}).backend(), "none");  // an option overrides it
  set("TRIREME_BACKEND", "");
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { init(); }), "TRIREME_BACKEND"));
}

TEST_F(Init, ListsTheBackendsForAWrongOne) {
  const std::string what =
      message_of<InvalidArgument>([] { init({.backend = "smoke"}); });
  EXPECT_TRUE(contains(what, "[comm] expected a backend out of "));
  EXPECT_TRUE(contains(what, "none, "));
  EXPECT_TRUE(contains(what, "shm"));
  EXPECT_TRUE(
      contains(what, "got \"smoke\"; see InitOptions::backend and TRIREME_BACKEND"));
}

TEST_F(Init, SaysHowLocalRanksAreStarted) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { init({.backend = "local"}); }),
      "got \"local\"; local ranks are threads: start them with run_local()"));
}

TEST_F(Init, NeedsMpirunForSeveralHosts) {
  const LaunchEnv env{
      .rank = 5, .world_size = 8, .local_rank = 1, .local_world_size = 4};
  EXPECT_TRUE(contains(
      message_of<NotSupported>([&] { init(env); }),
      "[comm] expected all ranks on one host, got 4 of 8 here; "));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { init(env, {.backend = "shm"}); }),
      "got 4 of 8"));
}

TEST_F(Init, PassesOnWhatIsWrongWithTheLauncher) {
  set("RANK", "0");
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { init(); }), "WORLD_SIZE"));
}

TEST_F(Init, PutsTheRankIntoTheLog) {
  const testing::LogScope log;
  EXPECT_THROW(init({.rank = 5, .world_size = 8, .local_world_size = 4}), NotSupported);
  TRIREME_LOG(warn, "comm") << "a";
  EXPECT_EQ(log.lines(), std::vector<std::string>{"[trireme 5/8 comm] warn: a"});
}

// ---- ranks as threads
// ------------------------------------------------------------------

TEST_F(Init, RefusesAWrongNumberOfThreads) {
  for (const int ranks : {0, -3, 4097, 5000})
    EXPECT_EQ(
        message_of<InvalidArgument>([&] {
          run_local(ranks, [](const Group&) { ADD_FAILURE() << "a rank ran"; });
        }),
        text(
            "[comm] expected 1 to 4096 ranks as threads, got ",
            ranks,
            "; take another number"));
}

TEST(InitRanks, AreThreadsOfTheirOwn) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<int> ranks;
  run_local(
      4,
      [&](const Group& world) {
        EXPECT_EQ(world.backend(), "local");
        EXPECT_EQ(world.options().timeout, milliseconds(9000));
        std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
        ranks.insert(world.rank());
      },
      {.timeout = milliseconds(9000)});
  EXPECT_EQ(threads.size(), 4U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
}

TEST(InitRanks, MayBeOne) {
  run_local(1, [](const Group& world) {
    EXPECT_EQ(world.backend(), "none");
    barrier(world);
  });
}

TEST(InitRanks, LogWithTheirRank) {
  const testing::LogScope log;
  run_local(2, [](const Group& world) {
    if (world.rank() == 1)
      TRIREME_LOG(warn, "comm") << "a";
  });
  EXPECT_EQ(log.lines(), std::vector<std::string>{"[trireme 1/2 comm] warn: a"});
}

// What every other rank of a world gets when `fail` takes rank 1 away.
void expect_peer_errors(const std::function<void()>& fail, const std::string& what) {
  std::atomic<int> told{0};
  const auto body = [&](const Group& world) {
    if (world.rank() == 1)
      fail();
    try {
      barrier(world);
    } catch (const PeerError& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_EQ(std::string(error.what()), what);
      ++told;
      throw;
    }
  };
  try {
    run_local(3, body, {.timeout = std::chrono::seconds(20)});
  } catch (...) {
    EXPECT_EQ(told.load(), 2);
    throw;
  }
}

TEST(InitRanks, ThrowTheErrorOfTheRankThatBegan) {
  EXPECT_THROW(
      expect_peer_errors(
          [] { throw std::out_of_range("overboard"); },
          "[comm] rank 1 failed: overboard"),
      std::out_of_range);
}

TEST(InitRanks, ThrowWhatIsNoException) {
  EXPECT_THROW(
      expect_peer_errors(
          [] { throw 42; },
          "[comm] rank 1 failed: something that is not a std::exception was thrown"),
      int);
}

TEST(InitRanks, ThrowAPeerErrorIfThereIsNoOther) {
  try {
    run_local(2, [](const Group& world) {
      if (world.rank() == 1)
        world.abort("no wind");
      barrier(world);
    });
    ADD_FAILURE() << "no error";
  } catch (const PeerError& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_EQ(std::string(error.what()), "[comm] rank 1 failed: no wind");
  }
}

TEST(InitRanks, MayFailAfterTheyHaveLeft) {
  EXPECT_EQ(
      message_of<std::out_of_range>([] {
        run_local(2, [](const Group& world) {
          Group copy = world;
          copy.close();
          throw std::out_of_range("ashore");
        });
      }),
      "ashore");
  EXPECT_THROW(
      run_local(
          1,
          [](const Group& world) {
            Group copy = world;
            copy.close();
            throw 42;
          }),
      int);
}

TEST(InitRanks, MayFailToJoin) {
  const auto join = [](int rank, const Deadline&) -> std::shared_ptr<Engine> {
    if (rank == 1)
      throw NotSupported("[comm] no seat");
    return std::make_shared<FakeEngine>(rank, 2);
  };
  std::atomic<int> ran{0};
  EXPECT_EQ(
      message_of<NotSupported>(
          [&] { run_threads(2, join, [&](const Group&) { ++ran; }); }),
      "[comm] no seat");
  EXPECT_EQ(ran.load(), 1);
}

TEST(InitRanks, JoinWithinTheTimeout) {
  milliseconds allowed{0};
  run_threads(
      1,
      [&](int rank, const Deadline& deadline) {
        allowed = deadline.allowed();
        return std::make_shared<FakeEngine>(rank, 1);
      },
      [](const Group&) {},
      {.timeout = milliseconds(1700)});
  EXPECT_EQ(allowed, milliseconds(1700));
}

TEST(InitRanks, ShareTheThreadsOfTheirCaller) {
  const int before = at::get_num_threads();
  const auto join = [](int rank, const Deadline&) {
    return std::make_shared<FakeEngine>(rank, 2);
  };
  const auto threads_of = [&](int caller, const LocalOptions& options) {
    at::set_num_threads(caller);
    std::mutex mutex;
    std::set<int> found;
    run_threads(
        2,
        join,
        [&](const Group&) {
          const std::lock_guard lock(mutex);
          found.insert(at::get_num_threads());
        },
        options);
    EXPECT_EQ(at::get_num_threads(), caller) << "the caller has its own again";
    return found;
  };
  EXPECT_EQ(threads_of(8, {}), std::set<int>{4});
  EXPECT_EQ(threads_of(1, {}), std::set<int>{1});
  EXPECT_EQ(threads_of(1, {.threads = 3}), std::set<int>{3});
  at::set_num_threads(before);
}

TEST(InitRanks, PeersAreToldWhatWasThrown) {
  const LocalWorld world(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&world, rank] {
      const Group group(world.join(rank, Deadline::after(std::chrono::seconds(20))));
      const auto body = [&] {
        if (rank == 1)
          throw std::out_of_range("the oar is broken");
        barrier(group, {.timeout = std::chrono::seconds(20)});
      };
      if (rank == 1) {
        EXPECT_THROW(telling_peers(group, body), std::out_of_range);
      } else {
        EXPECT_EQ(
            testing::message_of<PeerError>([&] { telling_peers(group, body); }),
            "[comm] rank 1 failed: the oar is broken");
      }
    });
  for (std::thread& rank : ranks)
    rank.join();
}

TEST_F(Init, TellingPeersPassesOnWhatIsNoStdException) {
  const Group group(LocalWorld(1).join(0, Deadline::after(std::chrono::seconds(5))));
  EXPECT_THROW(telling_peers(group, [] { throw 7; }), int);
  EXPECT_EQ(
      testing::message_of<PeerError>([&] { group.engine().check(); }),
      "[comm] rank 0 failed: something that is not a std::exception was thrown");
  Group closed = Group(LocalWorld(1).join(0, Deadline::after(std::chrono::seconds(5))));
  closed.close();
  EXPECT_THROW(telling_peers(closed, [] { throw 7; }), int);
}

}  // namespace
}  // namespace trireme::comm
