#include "trireme/comm/clock_offset.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

constexpr int64_t kClockMs = 1000000;

TEST(ClockOffset, TheFastestTripDecides) {
  // Asked at 100 and answered at 120: the other clock said 1000 at about 110.
  const ClockOffset offset = find_offset(
      {{.asked_ns = 0, .other_ns = 5000, .answered_ns = 1000},
       {.asked_ns = 100, .other_ns = 1000, .answered_ns = 120}});
  EXPECT_EQ(offset.ns, 890);
  EXPECT_EQ(offset.error_ns, 10);
}

/// What the clock of each rank is ahead of the real one.
constexpr int64_t kAhead[] = {3000 * kClockMs, -7000 * kClockMs, 11 * kClockMs};

TEST(ClockOffsetRanks, IsFoundForRanksOfOtherHosts) {
  testing::run_world(testing::Backend::Local, 3, [](const Group& world) {
    const int64_t ahead = kAhead[world.rank()];
    const std::vector<RankHost> hosts{{.kernel = 1}, {.kernel = 2}, {.kernel = 3}};
    const auto clock = [ahead] { return now_ns() + ahead; };
    // Twice: the channels of the first time are closed.
    for (int time = 0; time < 2; ++time) {
      const ClockOffset offset = measure_offset(world, hosts, clock);
      const int64_t real = kAhead[0] - ahead;
      EXPECT_LE(std::abs(offset.ns - real), offset.error_ns);
      EXPECT_EQ(offset.error_ns == 0, world.rank() == 0);
    }
  });
}

TEST(ClockOffsetRanks, RanksOfOneKernelHaveOneClock) {
  testing::run_world(testing::Backend::Local, 3, [](const Group& world) {
    const std::vector<RankHost> hosts{{.kernel = 5}, {.kernel = 5}, {.kernel = 5}};
    const ClockOffset offset = measure_offset(world, hosts, [&] {
      ADD_FAILURE() << "nobody has to ask";
      return int64_t{0};
    });
    EXPECT_EQ(offset.ns, 0);
    EXPECT_EQ(offset.error_ns, 0);
  });
}

}  // namespace
}  // namespace trireme::comm
