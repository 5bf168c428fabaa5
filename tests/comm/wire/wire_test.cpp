// What wires have in common: words for what is late, and whom they tell of failures.
#include "trireme/comm/wire/wire.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::message_of;

TEST(WireRanks, SaysWhoDidNotCome) {
  std::atomic<int> waiting{2};
  run_wire(4, [&waiting](const Group& world) {
    const Group group = world.split(world.rank() == 3 ? -1 : 0);
    while (world.rank() >= 2 && waiting > 0)
      std::this_thread::sleep_for(milliseconds(1));
    if (world.rank() >= 2)
      return;
    const std::string what = message_of<TimeoutError>(
        [&] { all_reduce(group, at::ones({2}), {.timeout = milliseconds(100)}); });
    EXPECT_TRUE(contains(
        what,
        "[comm] expected 3 ranks at all_reduce sum float32[2] of the group of ranks 0, "
        "1 and 2 within 100 ms, but rank 2 did not come; look at the other ranks, or "
        "allow more time (TRIREME_TIMEOUT)"));
    --waiting;
  });
}

TEST(WireRanks, SaysWhoDidNotAnswer) {
  run_wire(2, [](const Group& world) {
    auto& wire = dynamic_cast<WireEngine&>(world.engine()).wire();
    if (world.rank() == 1)
      return;
    const Deadline deadline = Deadline::after(milliseconds(50));
    wire.begin(signature({.kind = CollectiveKind::Broadcast, .root = 0}), deadline);
    std::byte byte{};
    wire.receive(1, &byte, 1);
    try {
      wire.finish();
      ADD_FAILURE() << "no error";
    } catch (const TimeoutError& error) {
      EXPECT_TRUE(contains(error.what(), "it did not end: rank 1 did not answer"));
    } catch (const PeerError& error) {
      EXPECT_TRUE(contains(error.what(), "has left"));
    }
  });
}

TEST(WireRanks, TellsAnotherWorldOnce) {
  run_wire(2, [](const Group& world) {
    auto& wire = dynamic_cast<WireEngine&>(world.engine()).wire();
    std::atomic<int> told{0};
    wire.world().on_failure([&told](const Failure& failure) {
      EXPECT_EQ(failure.origin, 1);
      EXPECT_TRUE(contains(failure.why, "no water"));
      ++told;
    });
    barrier(world);
    if (world.rank() == 1) {
      world.abort("no water");
      world.abort("no wind");
    }
    EXPECT_THROW(
        {
          for (;;)
            barrier(world);
        },
        PeerError);
    for (int i = 0; i < 1000 && told == 0; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(told, 1);
    // Who asks late hears of it all the same.
    std::string late;
    wire.world().on_failure([&late](const Failure& failure) { late = failure.why; });
    EXPECT_TRUE(contains(late, "no water")) << late;
  });
}

TEST(Wire, HasDefaultsThatFitOneAnother) {
  const WireTuning tuning;
  EXPECT_EQ(tuning.chunk_bytes % 64, 0U);
  EXPECT_EQ(tuning.chain_bytes % 64, 0U);
  EXPECT_LE(tuning.payload_bytes, tuning.small_bytes);
}

}  // namespace
}  // namespace trireme::comm
