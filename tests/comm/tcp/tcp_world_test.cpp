#include "trireme/comm/tcp/tcp_world.h"

#include <thread>

#include <gtest/gtest.h>

#include "tcp_ranks.h"
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
  std::thread other([&] {
    // By then the former address of rank 0 has gone.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    second =
        TcpWorld::join(how.setup(1, store), Deadline::after(std::chrono::seconds(20)));
  });
  TcpSetup once_more = how.setup(0, store);
  once_more.again = true;
  first = TcpWorld::join(once_more, Deadline::after(std::chrono::seconds(20)));
  other.join();
  // They leave together: whoever is left alone would say so.
  std::thread leave([&] { second.reset(); });
  first.reset();
  leave.join();
}

TEST(TcpWorldRanks, AFailureReachesRanksThatNeverSpoke) {
  // Only neighbours are connected: the word goes round the ring.
  run_tcp({.hosts = {6}}, [](const Group& world) {
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
  run_tcp({.hosts = {3}}, [](const Group& world) {
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

}  // namespace
}  // namespace trireme::comm
