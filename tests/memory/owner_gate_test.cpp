// The owner and a visitor are never inside together, and both get through.
#include "trireme/memory/owner_gate.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace trireme::memory {
namespace {

TEST(OwnerGate, AVisitorOfAnEmptyGateDoesNotWait) {
  OwnerGate gate;
  gate.close();
  gate.await_owner_outside();
  gate.open();
  gate.enter();
  gate.leave();
}

TEST(OwnerGate, ThisSystemHasTheFence) {
  EXPECT_TRUE(OwnerGate::fence_all())
      << "the rest works without, but keeps more memory";
}

TEST(OwnerGateRanks, OwnerAndVisitorExcludeEachOther) {
  if (!OwnerGate::fence_all()) {
    GTEST_SKIP() << "no membarrier here";
  }
  OwnerGate gate;
  // Guarded by the gate. One is not atomic, for ThreadSanitizer; the other shows an
  // owner that comes in while a visitor is there.
  long visits = 0;
  std::atomic<long> entries{0};
  std::atomic<bool> done{false};
  std::thread owner([&] {
    while (!done.load(std::memory_order_relaxed)) {
      gate.enter();
      ++visits;
      --visits;
      entries.store(
          entries.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      gate.leave();
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  long made = 0;
  long intrusions = 0;
  for (; made < 3000 && std::chrono::steady_clock::now() < end; ++made) {
    gate.close();
    ASSERT_TRUE(OwnerGate::fence_all());
    gate.await_owner_outside();
    const long before = entries.load(std::memory_order_relaxed);
    ++visits;
    for (int look = 0; look < 50; ++look) {
      intrusions += entries.load(std::memory_order_relaxed) != before ? 1 : 0;
    }
    gate.open();
    // On, when the owner is at work again: only then can the two meet.
    for (int spins = 0; entries.load(std::memory_order_relaxed) < before + 3; ++spins) {
      if (spins > 1000) {
        std::this_thread::yield();
      }
    }
  }
  done.store(true);
  owner.join();
  EXPECT_EQ(visits, made);
  EXPECT_EQ(intrusions, 0);
}

}  // namespace
}  // namespace trireme::memory
