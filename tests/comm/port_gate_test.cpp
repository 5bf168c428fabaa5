// Threads at one end of a channel: turns, and who does not wait for whom.
#include "trireme/comm/port_gate.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;

Deadline long_enough() {
  return Deadline::after(std::chrono::seconds(20));
}

TEST(PortGate, LetsOneInAtATime) {
  PortGate gate;
  std::atomic<int> inside{0}, entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const PortGate::Turn turn =
            t % 2 == 0 ? gate.enter(long_enough()) : gate.try_enter();
        ASSERT_TRUE(static_cast<bool>(turn));  // nobody waits for a peer here
        EXPECT_EQ(++inside, 1);
        ++entered;
        --inside;
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(entered.load(), 2000);
}

TEST(PortGate, WhoTriesDoesNotWaitForOneThatWaits) {
  PortGate gate;
  const PortGate::Turn holder = gate.enter(long_enough());
  holder.set_waiting(true);
  std::thread([&] { EXPECT_FALSE(static_cast<bool>(gate.try_enter())); }).join();
}

// Also if the holder begins to wait while somebody tries.
TEST(PortGate, WhoTriesIsTurnedAwayWhenTheHolderBeginsToWait) {
  PortGate gate;
  const PortGate::Turn holder = gate.enter(long_enough());
  std::thread other([&] { EXPECT_FALSE(static_cast<bool>(gate.try_enter())); });
  std::this_thread::sleep_for(milliseconds(20));
  holder.set_waiting(true);
  other.join();
}

TEST(PortGate, WhoTriesWaitsForOneThatWorks) {
  PortGate gate;
  std::thread other;
  {
    const PortGate::Turn holder = gate.enter(long_enough());
    holder.set_waiting(true);
    holder.set_waiting(false);
    other = std::thread([&] { EXPECT_TRUE(static_cast<bool>(gate.try_enter())); });
    std::this_thread::sleep_for(milliseconds(20));
  }
  other.join();
}

TEST(PortGate, ATurnIsWaitedForUntilTheDeadline) {
  PortGate gate;
  const PortGate::Turn holder = gate.enter(long_enough());
  std::thread([&] {
    EXPECT_FALSE(static_cast<bool>(gate.enter(Deadline::after(milliseconds(20)))));
    EXPECT_FALSE(static_cast<bool>(gate.enter(Deadline::after(milliseconds(-1)))));
  }).join();
}

TEST(PortGate, IsFreeAgainAfterAnExceptionOfOneThatWaited) {
  PortGate gate;
  try {
    const PortGate::Turn holder = gate.enter(long_enough());
    holder.set_waiting(true);
    throw 1;
  } catch (int) {
  }
  EXPECT_TRUE(static_cast<bool>(gate.try_enter()));
}

}  // namespace
}  // namespace trireme::comm
