#include "trireme/comm/shared/core_seats.h"

#include <array>
#include <sched.h>
#include <thread>

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

/// Seats of three ranks; the test plays the others.
struct Seats {
  std::array<std::atomic<int32_t>, 3> cores{-1, -1, -1};
  CoreSeats of(int rank) {
    return CoreSeats(rank, 3, [this](int peer) -> std::atomic<int32_t>& {
      return cores[static_cast<size_t>(peer)];
    });
  }
};

cpu_set_t allowed_now() {
  cpu_set_t set;
  ::sched_getaffinity(0, sizeof set, &set);
  return set;
}

/// Runs a body on a thread that starts on `core` and may go anywhere.
void on_core(int core, const std::function<void()>& body) {
  std::thread([&] {
    const cpu_set_t all = allowed_now();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    ::sched_setaffinity(0, sizeof all, &all);
    body();
  }).join();
}

TEST(CoreSeats, TellWhereTheRankRuns) {
  Seats seats;
  seats.of(1).settle();
  EXPECT_GE(seats.cores[1].load(), 0);
  EXPECT_EQ(seats.cores[0].load(), -1);
}

TEST(CoreSeats, TheHigherRankMovesAndKeepsItsFreedom) {
  if (CPU_COUNT([] {
        static cpu_set_t set = allowed_now();
        return &set;
      }()) < 2)
    GTEST_SKIP() << "there is only one core";
  Seats seats;
  on_core(::sched_getcpu(), [&] {
    const cpu_set_t before = allowed_now();
    const int core = ::sched_getcpu();
    seats.cores[0] = core;  // rank 0 is here too
    seats.of(1).settle();
    EXPECT_NE(seats.cores[1].load(), core);
    const cpu_set_t after = allowed_now();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  });
}

// Or two that meet on a core would move both. The scheduler may move the thread now and
// then, a move of ours would take it away every time.
TEST(CoreSeats, TheLowerRankStays) {
  const cpu_set_t allowed = allowed_now();
  if (CPU_COUNT(&allowed) < 2)
    GTEST_SKIP() << "there is only one core";
  constexpr int kTries = 20;
  int stayed = 0;
  for (int i = 0; i < kTries; ++i)
    on_core(::sched_getcpu(), [&] {
      Seats seats;
      const int core = ::sched_getcpu();
      seats.cores[1] = core;
      seats.of(0).settle();
      stayed += seats.cores[0].load() == core && ::sched_getcpu() == core ? 1 : 0;
    });
  EXPECT_GT(stayed, kTries / 2);
}

TEST(CoreSeats, NobodyMovesWhenThereIsNoFreeCore) {
  Seats seats;
  std::thread([&] {
    const int core = ::sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    seats.cores[0] = core;
    seats.of(1).settle();
    EXPECT_EQ(seats.cores[1].load(), core);
  }).join();
}

}  // namespace
}  // namespace trireme::comm
