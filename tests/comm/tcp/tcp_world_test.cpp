#include "trireme/comm/tcp/tcp_world.h"

#include <array>
#include <barrier>
#include <future>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tcp_ranks.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;

TEST(TcpWorld, WhoDoesNotComeIsNamed) {
  const auto store = std::make_shared<net::MemoryStore>();
  const TcpRanks how{.hosts = {4}};
  std::thread second([&] {
    EXPECT_THROW(
        TcpWorld::join(
            how.setup(2, store), Deadline::after(std::chrono::milliseconds(300))),
        TimeoutError);
  });
  try {
    TcpWorld::join(
        how.setup(0, store), Deadline::after(std::chrono::milliseconds(300)));
    ADD_FAILURE();
  } catch (const TimeoutError& error) {
    EXPECT_TRUE(contains(error.what(), "without ranks 1, 3")) << error.what();
  }
  second.join();
}

// Rank 1 gives up first, and then is missing itself.
TEST(TcpWorld, WhoWaitsLongerNamesWhoDidNotComeAtFirst) {
  const auto store = std::make_shared<net::MemoryStore>();
  const TcpRanks how{.hosts = {3}};
  std::thread second([&] {
    EXPECT_THROW(
        TcpWorld::join(
            how.setup(1, store), Deadline::after(std::chrono::milliseconds(200))),
        TimeoutError);
  });
  try {
    TcpWorld::join(
        how.setup(0, store), Deadline::after(std::chrono::milliseconds(1000)));
    ADD_FAILURE();
  } catch (const TimeoutError& error) {
    EXPECT_TRUE(contains(error.what(), "without rank 2")) << error.what();
  }
  second.join();
}

// The store of rank 0 tells who was lost before it was connected to anybody.
TEST(TcpWorld, WhoIsGoneBeforeItHasComeIsNamedAtOnce) {
  const auto store = std::make_shared<net::MemoryStore>();
  const TcpRanks how{.hosts = {3}};
  const auto start = std::chrono::steady_clock::now();
  std::thread third([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    store->set("gone/rank-1", "its power failed");
  });
  for (const int rank : {0, 2}) {  // one hears of it, the other finds it there
    try {
      TcpWorld::join(how.setup(rank, store), Deadline::after(std::chrono::seconds(20)));
      ADD_FAILURE();
    } catch (const PeerError& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_TRUE(contains(error.what(), "its power failed")) << error.what();
    }
  }
  third.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(TcpWorld, WhoHasWaitedInVainMayComeAgain) {
  const auto store = std::make_shared<net::MemoryStore>();
  const TcpRanks how{.hosts = {2}};
  EXPECT_THROW(
      TcpWorld::join(
          how.setup(0, store), Deadline::after(std::chrono::milliseconds(100))),
      TimeoutError);
  std::shared_ptr<TcpWorld> first, second;
  // It comes while only the former address of rank 0 is there.
  std::thread other([&] {
    second =
        TcpWorld::join(how.setup(1, store), Deadline::after(std::chrono::seconds(20)));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  first =
      TcpWorld::join(how.setup(0, store), Deadline::after(std::chrono::seconds(20)));
  other.join();
  // They leave together: whoever is left alone would say so.
  std::thread leave([&] { second.reset(); });
  first.reset();
  leave.join();
}

// A store of the launcher outlives a world of its ranks.
TEST(TcpWorld, AWorldThatWasClosedCanBeJoinedAnew) {
  const auto store = std::make_shared<net::MemoryStore>();
  const TcpRanks how{.hosts = {2}};
  const auto join = [&](int rank) {
    for (int life = 0; life < 3; ++life) {
      const auto limit = Deadline::after(std::chrono::seconds(20));
      WireEngine(TcpWire::root(how.setup(rank, store), limit))
          .run({.kind = CollectiveKind::Barrier}, limit);
    }
  };
  std::thread other([&] { join(1); });
  join(0);
  other.join();
}

/// The store of rank 0, which goes with it when all have met their neighbours.
class MortalStore : public net::PrefixStore {
 public:
  using PrefixStore::PrefixStore;
  net::StoreSwap compare_set(
      std::string_view key,
      std::optional<std::string_view> expected,
      std::string_view desired) override {
    if (key.find("met/") != key.npos)
      throw PeerError(0, "rank 0 went down with the store");
    return PrefixStore::compare_set(key, expected, desired);
  }
};

// Who notices first leaves because of it, and is not to blame.
TEST(TcpWorld, WhoLosesTheStoreTellsTheOthersWhoWasLost) {
  const auto store = std::make_shared<net::MemoryStore>();
  const auto mortal = std::make_shared<MortalStore>("", store);
  const TcpRanks how{.hosts = {3}};
  std::vector<std::thread> ranks;
  for (const int rank : {0, 1, 2})
    ranks.emplace_back([&, rank] {
      try {
        const auto its = rank == 2 ? std::shared_ptr<net::Store>(mortal) : store;
        TcpWorld::join(how.setup(rank, its), Deadline::after(std::chrono::seconds(20)));
        ADD_FAILURE();
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 0) << error.what();
        EXPECT_TRUE(contains(error.what(), "went down")) << error.what();
      }
    });
  for (std::thread& rank : ranks)
    rank.join();
}

// Rank 0 finds out inside its host, and leaves with the store before that has heard.
TEST(TcpWorld, ARenewalThatFailsNamesWhoOthersStayAwayFor) {
  const auto store = std::make_shared<net::MemoryStore>();
  const TcpRanks how{.hosts = {3}};
  std::array<std::shared_ptr<TcpWire>, 3> wires;
  const auto limit = Deadline::after(std::chrono::seconds(20));
  std::vector<std::thread> threads;
  for (const int rank : {0, 1, 2})
    threads.emplace_back([&, rank] {
      wires[static_cast<size_t>(rank)] = TcpWire::root(how.setup(rank, store), limit);
    });
  for (std::thread& thread : threads)
    thread.join();
  TcpWorld& first = wires[0]->world();
  first.stop({.origin = 0, .why = "let us begin anew"});
  first.stay_away({.origin = 2, .why = "rank 2 fell overboard"});
  const auto knows = [&] {
    try {
      wires[1]->world().mail().check_absence();
      return false;
    } catch (const PeerError&) {
      return true;
    }
  };
  while (!knows() && !limit.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  store->set("gone/rank-0", "it has left");
  try {
    wires[1]->renew(limit);
    ADD_FAILURE();
  } catch (const PeerError& error) {
    EXPECT_EQ(error.rank(), 2);
    EXPECT_TRUE(contains(error.what(), "fell overboard")) << error.what();
  }
  std::vector<std::thread> leaving;  // together
  for (auto& wire : wires)
    leaving.emplace_back([&wire] { wire.reset(); });
  for (std::thread& thread : leaving)
    thread.join();
}

TEST(TcpWorldRanks, AFailureReachesRanksThatNeverSpoke) {
  // Only neighbours are connected: the word goes round the ring.
  std::barrier all_are_there(6);  // of threads: none of them speaks
  run_tcp({.hosts = {6}}, [&all_are_there](const Group& world) {
    all_are_there.arrive_and_wait();
    if (world.rank() == 4) {
      world.abort("[comm] a test stops here");
      return;
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (;;) {
      try {
        world.engine().check();
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 4);
        return;
      }
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
}

TEST(TcpWorldRanks, ALaterGenerationIsNotDisturbed) {
  std::barrier all_are_there(3);  // who is not would not begin at all
  run_tcp({.hosts = {3}}, [&all_are_there](const Group& world) {
    all_are_there.arrive_and_wait();
    if (world.rank() == 1)
      world.abort("[comm] a test stops here");
    while (true) {
      try {
        barrier(world);
      } catch (const Error&) {
        break;
      }
    }
    const Group again = world.renew();
    at::Tensor sum = at::ones({100'000});
    all_reduce(again, sum);
    EXPECT_EQ(sum[5].item<float>(), 3.0F);
  });
}

TEST(TcpWorldRanks, ARenewalThatTimedOutCanBeCalledAgain) {
  const TcpRanks how{.hosts = {2}, .timeout = std::chrono::milliseconds(1000)};
  std::promise<void> waited;
  std::barrier both_are_there(2);
  run_tcp(how, [&](const Group& world) {
    both_are_there.arrive_and_wait();
    if (world.rank() == 0)
      world.abort("[comm] a test stops here");
    EXPECT_THROW(for (int i = 0; i < 1000; ++i) barrier(world), Error);
    if (world.rank() == 1) {
      EXPECT_THROW(world.renew(), TimeoutError);
      waited.set_value();
    } else {
      waited.get_future().wait_for(std::chrono::seconds(20));
    }
    const Group again = world.renew();
    at::Tensor sum = at::ones({100'000});
    all_reduce(again, sum);
    EXPECT_EQ(sum[5].item<float>(), 2.0F);
    EXPECT_THROW(world.renew(), InvalidArgument);
    barrier(again);
  });
}

// A late rank keeps its own host from being renewed inside, while the other host is,
// and then waits in vain.
TEST(TcpWorldRanks, ARenewalThatOneHostDidNotGetCanBeCalledAgain) {
  const TcpRanks how{.hosts = {2, 2}, .timeout = std::chrono::milliseconds(1500)};
  std::barrier all_are_there(4);
  run_tcp(how, [&](const Group& world) {
    all_are_there.arrive_and_wait();
    if (world.rank() == 0)
      world.abort("[comm] a test stops here");
    EXPECT_THROW(for (int i = 0; i < 1000; ++i) barrier(world), Error);
    for (int round = 0; round < 2; ++round) {
      if (world.rank() != 3 - 2 * round) {
        EXPECT_THROW(world.renew(), TimeoutError);
      }
      all_are_there.arrive_and_wait();
    }
    const Group again = world.renew();
    at::Tensor sum = at::ones({100'000});
    all_reduce(again, sum);
    EXPECT_EQ(sum[5].item<float>(), 4.0F);
    EXPECT_THROW(world.renew(), InvalidArgument);
    barrier(again);
  });
}

// Where both have dialled there are two sessions: goodbye over one of them must not
// overtake what is still on its way over the other.
TEST(TcpWorldRanks, AGoodbyeOvertakesNoMessage) {
  for (int round = 0; round < 10; ++round)
    run_tcp({.hosts = {2}}, [](const Group& world) {
      const Channel edge(world, {.from = 0, .to = 1});
      if (world.rank() == 0)
        edge.send({.tensors = {at::ones({16'000'000})}});
      else
        EXPECT_EQ(edge.receive().tensors[0].numel(), 16'000'000);
    });
}

TEST(TcpWorldRanks, AnAbortWhileMuchIsOnItsWayIsNoticedByName) {
  run_tcp({.hosts = {2}}, [](const Group& world) {
    std::thread stopper([&world] {
      if (world.rank() == 1)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      world.abort("a test stops here");
    });
    at::Tensor large = at::ones({20'000'000});
    try {
      for (int i = 0; i < 1000; ++i)
        all_reduce(world, large);
      ADD_FAILURE();
    } catch (const PeerError& error) {
      EXPECT_EQ(error.rank(), 0);
      EXPECT_TRUE(contains(error.what(), "a test stops here")) << error.what();
    }
    stopper.join();
  });
}

// The word of an abort lies behind much that nobody reads for a while. Of three ranks
// each pair has one session.
TEST(TcpWorldRanks, TheReasonOfAnAbortArrivesOverASessionThatIsFull) {
  std::barrier all_are_there(6);  // of ranks, and of their threads
  run_tcp({.hosts = {3}}, [&](const Group& world) {
    auto& wire = dynamic_cast<WireEngine&>(world.engine()).wire();
    TcpMail& mail = dynamic_cast<TcpWire&>(wire).world().mail();
    const at::Tensor large = at::ones({45'000'000}), got = at::empty_like(large);
    std::thread other([&] {
      all_are_there.arrive_and_wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (world.rank() > 0)
        // Holds the lock that everything which comes needs.
        mail.wait(std::chrono::milliseconds(0), [] {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          return true;
        });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (world.rank() == 0)
        world.abort("a test stops here");
    });
    all_are_there.arrive_and_wait();
    try {
      for (int i = 0; i < 1000; ++i)
        all_to_all(world, got, large);  // long transfers, each way
      ADD_FAILURE();
    } catch (const PeerError& error) {
      EXPECT_EQ(error.rank(), 0);
      EXPECT_TRUE(contains(error.what(), "a test stops here")) << error.what();
    }
    other.join();
  });
}

// As ranks of two releases would: one sends its value with the call, and the other has
// no room for it. It must not wait for its deadline, though nobody else has failed.
TEST(TcpWorldRanks, WhatCannotBeUnderstoodIsAFailure) {
  const auto store = std::make_shared<net::MemoryStore>();
  std::promise<void> failed;
  const auto run = [&](int rank, size_t payload_bytes) {
    TcpRanks how{.hosts = {2}, .tuning = {.payload_bytes = payload_bytes}};
    const Deadline limit = Deadline::after(std::chrono::seconds(20));
    WireEngine engine(TcpWire::root(how.setup(rank, store), limit));
    at::Tensor sum = at::ones({256});
    const Piece piece{static_cast<std::byte*>(sum.data_ptr()), sum.nbytes()};
    const Collective call{
        .kind = CollectiveKind::AllReduce,
        .dtype = c10::ScalarType::Float,
        .count = 256,
        .give = {&piece, 1},
        .take = {&piece, 1}};
    if (rank == 0) {
      try {
        engine.run(call, limit);
      } catch (const PeerError&) {  // where the other has failed before
      }
      failed.get_future().wait_for(std::chrono::seconds(15));
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THROW(engine.run(call, limit), PeerError);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    failed.set_value();
  };
  std::thread other([&] { run(0, 2048); });
  run(1, 64);
  other.join();
}

}  // namespace
}  // namespace trireme::comm
