#include "trireme/comm/shared/world.h"

#include <array>
#include <atomic>
#include <functional>
#include <sched.h>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/comm/shared/shared_engine.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

/// A watch that believes what the test tells it.
class ToldWatch : public PeerWatch {
 public:
  std::vector<int> find_dead() override {
    ++looks;
    return {dead.begin(), dead.end()};
  }
  bool sees_all() override { return all; }
  int looks = 0;
  bool all = true;
  std::set<int> dead;
};

/// Three ranks whose World objects the test holds in one thread.
struct Crew {
  std::shared_ptr<HeapMemory> memory = std::make_shared<HeapMemory>();
  std::shared_ptr<ToldWatch> watch = std::make_shared<ToldWatch>();
  uint64_t control = make_world(*memory, 3);
  std::vector<std::byte> rings = std::vector<std::byte>(kFlightRingBytes * 3 + 64);

  std::unique_ptr<World> join(int rank) {
    void* place = rings.data();
    size_t room = rings.size();
    auto* aligned =
        static_cast<std::byte*>(std::align(64, kFlightRingBytes * 3, place, room));
    return std::make_unique<World>(WorldSetup{
        .rank = rank,
        .size = 3,
        .memory = memory,
        .control = control,
        .watch = watch,
        .recorder = std::make_shared<FlightRecorder>(aligned, rank, 3, "", nullptr)});
  }
};

const std::vector<int> kAll = {0, 1, 2};

TEST(World, HasNoTroubleAtFirst) {
  Crew crew;
  const auto world = crew.join(0);
  EXPECT_EQ(world->trouble(kAll), nullptr);
  EXPECT_NO_THROW(world->check());
}

// Lets `waiting` look for trouble, as it does while it waits, until `done`; false if
// that does not come.
bool look_until(
    const std::vector<const World*>& waiting, const std::function<bool()>& done) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  while (!done() && !deadline.expired()) {
    for (const World* world : waiting)
      world->trouble(kAll);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done();
}

TEST(World, OneRankLooksForTheDeadOnBehalfOfAll) {
  Crew crew;
  const auto a = crew.join(0), b = crew.join(1);
  crew.watch->looks = 0;
  EXPECT_EQ(a->trouble(kAll), nullptr);
  EXPECT_EQ(b->trouble(kAll), nullptr);
  EXPECT_EQ(crew.watch->looks, 1) << "b leaves it to a";
  // When a waits no longer, b takes over.
  crew.watch->dead = {2};
  EXPECT_TRUE(look_until({b.get()}, [&] { return b->control().stopped_by != 0; }));
}

TEST(World, ARankThatDoesNotSeeAllLooksForItselfAlone) {
  Crew crew;
  const auto a = crew.join(0), b = crew.join(1);
  crew.watch->all = false;
  crew.watch->looks = 0;
  EXPECT_EQ(a->trouble(kAll), nullptr);
  EXPECT_EQ(b->trouble(kAll), nullptr);
  EXPECT_EQ(crew.watch->looks, 2);
  crew.watch->all = true;
  crew.watch->looks = 0;
  EXPECT_TRUE(look_until({b.get()}, [&] { return crew.watch->looks > 0; }))
      << "nobody has looked for it";
}

// The policy of a world of two ranks whose threads are pinned to these CPUs.
WaitPolicy policy_of_pinned(
    int first, int second, const std::vector<RankCores>& neighbours = {}) {
  const auto memory = std::make_shared<HeapMemory>();
  const uint64_t control = make_world(*memory, 2);
  std::vector<std::unique_ptr<World>> worlds;
  for (const int cpu : {first, second})
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<size_t>(cpu), &one);
      ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
      worlds.push_back(std::make_unique<World>(WorldSetup{
          .rank = static_cast<int>(worlds.size()),
          .size = 2,
          .neighbours = neighbours,
          .memory = memory,
          .control = control}));
    }).join();
  EXPECT_EQ(worlds[0]->policy().spin.count(), 0) << "while nothing is known";
  worlds[0]->choose_policy();
  return worlds[0]->policy();
}

// As our launcher pins ranks: each may use one core, and there is one for each.
TEST(World, PinnedRanksSpinWhereEachHasACoreOfItsOwn) {
  const auto cpus = allowed_cpus();
  EXPECT_EQ(policy_of_pinned(cpus[0], cpus[0]).spin.count(), 0);
  if (cpus.size() < 2 || available_cores() < 2)
    GTEST_SKIP() << "there is only one core";
  EXPECT_GT(policy_of_pinned(cpus[0], cpus[1]).spin.count(), 0);
}

// Two hosts may be containers on one machine.
TEST(World, LetsOthersRunWhereANeighbourNeedsTheCore) {
  const auto cpus = allowed_cpus();
  if (cpus.size() < 2 || available_cores() < 2)
    GTEST_SKIP() << "there is only one core";
  RankCores neighbour;
  neighbour.add(cpus[1]);
  const WaitPolicy policy = policy_of_pinned(cpus[0], cpus[1], {neighbour});
  EXPECT_EQ(policy.spin.count(), 0);
  EXPECT_GT(policy.yield.count(), 0);
}

TEST(World, StopsForEverybodyWithTheFirstReason) {
  Crew crew;
  const auto a = crew.join(0), b = crew.join(1);
  b->stop({.origin = 1, .why = "first"});
  a->stop({.origin = 0, .why = "second"});
  for (const World* world : {a.get(), b.get()}) {
    try {
      world->check();
      ADD_FAILURE();
    } catch (const PeerError& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_STREQ(error.what(), "first");
    }
  }
}

TEST(World, CutsAReasonThatIsTooLong) {
  Crew crew;
  const auto world = crew.join(0);
  world->stop({.why = std::string(5000, 'x')});
  const auto what = message_of<PeerError>([&] { world->check(); });
  EXPECT_EQ(what, std::string(1011, 'x'));
}

TEST(World, TurnsATimeoutIntoTheSameErrorEverywhere) {
  Crew crew;
  const auto a = crew.join(0), b = crew.join(1);
  EXPECT_EQ(
      message_of<TimeoutError>([&] { a->time_out("rank 2 is late"); }),
      "rank 2 is late");
  EXPECT_EQ(message_of<TimeoutError>([&] { b->check(); }), "rank 2 is late");
}

TEST(World, NoticesADeadRankAndNamesIt) {
  Crew crew;
  const auto a = crew.join(0), b = crew.join(1);
  crew.watch->dead = {1};
  try {
    std::rethrow_exception(a->trouble({}));
  } catch (const PeerError& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_TRUE(contains(error.what(), "ended without leaving"));
  }
  EXPECT_THROW(b->check(), PeerError);
}

TEST(World, DoesNotMindARankThatLeftUnlessItIsWaitedFor) {
  Crew crew;
  const auto a = crew.join(0);
  crew.join(1);  // leaves at once
  crew.watch->dead = {1};
  const std::vector<int> others = {0, 2};
  EXPECT_EQ(a->trouble(others), nullptr);
  const auto trouble = a->trouble(kAll);
  EXPECT_TRUE(contains(
      message_of<PeerError>([&] { std::rethrow_exception(trouble); }), "rank 1"));
  EXPECT_NO_THROW(a->check());
}

TEST(World, TellsTheOthersWhenItIsLeftByAnException) {
  Crew crew;
  const auto a = crew.join(0);
  try {
    const auto b = crew.join(1);
    throw std::runtime_error("storm");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(contains(
      message_of<PeerError>([&] { a->check(); }),
      "rank 1 left its world by an exception"));
}

// Whoever leaves last lets go of what was never received; of two that leave at once
// one is the last.
TEST(WorldRanks, OneOfThoseThatLeaveAtOnceIsTheLast) {
  Crew crew;
  std::array<std::unique_ptr<World>, 2> worlds;
  const Deadline enough = Deadline::after(std::chrono::seconds(2));
  for (int round = 0; round < 3000 && !enough.expired(); ++round) {
    crew.control = make_world(*crew.memory, 3);
    for (int rank = 0; rank < 2; ++rank)
      worlds[static_cast<size_t>(rank)] = crew.join(rank);
    auto kept = std::make_shared<int>(0);
    const std::weak_ptr<int> watch = kept;
    crew.memory->retire([kept = std::move(kept)] { return false; });
    std::atomic<int> ready{0};
    const auto leave = [&](size_t rank) {
      ++ready;
      while (ready != 2)
        std::this_thread::yield();
      worlds[rank].reset();
    };
    std::thread other(leave, 1);
    leave(0);
    other.join();
    ASSERT_TRUE(watch.expired()) << "round " << round;
    crew.memory->release(
        crew.memory->as<WorldControl>(crew.control)->root_group.load());
    crew.memory->release(crew.control);
  }
}

TEST(WorldRanks, RenewsWhenAllHaveCome) {
  Crew crew;
  const auto a = crew.join(0), b = crew.join(1), c = crew.join(2);
  b->stop({.origin = 1, .why = "leak"});
  uint64_t next[3] = {};
  std::vector<std::thread> threads;
  for (World* world : {a.get(), b.get(), c.get()})
    threads.emplace_back([&, world] {
      next[world->rank()] = world->renew(
          Deadline::after(std::chrono::seconds(10)),
          [&] { return make_world(*crew.memory, 3); });
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_NE(next[0], crew.control);
  EXPECT_EQ(next[0], next[1]);
  EXPECT_EQ(next[0], next[2]);
  EXPECT_EQ(message_of<PeerError>([&] { a->check(); }), "leak");
}

TEST(World, CannotRenewWithoutTheDeadOrTheAbsent) {
  Crew crew;
  const auto a = crew.join(0), b = crew.join(1), c = crew.join(2);
  const auto make = [&] { return make_world(*crew.memory, 3); };
  const auto late = message_of<TimeoutError>(
      [&] { a->renew(Deadline::after(std::chrono::milliseconds(50)), make); });
  EXPECT_TRUE(contains(late, "ranks 1 and 2 did not come"));
  crew.watch->dead = {2};
  b->control().slot(1).renewing = 1;
  const auto gone = message_of<PeerError>(
      [&] { a->renew(Deadline::after(std::chrono::seconds(10)), make); });
  EXPECT_TRUE(contains(gone, "rank 2 is gone"));
}

}  // namespace
}  // namespace trireme::comm
