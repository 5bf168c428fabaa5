// The first step of every call over a wire.
#include "trireme/comm/wire/wire_steps.h"

#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/comm/wire/algorithms.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

/// Runs `body` with the steps of every rank.
void run_steps(
    int ranks,
    const WireTuning& tuning,
    const std::function<void(WireSteps&, const Deadline&)>& body) {
  run_wire(
      ranks,
      [&](const Group& world) {
        WireSteps steps(dynamic_cast<WireEngine&>(world.engine()).share_wire());
        const Deadline deadline = Deadline::after(std::chrono::seconds(30));
        body(steps, deadline);
      },
      tuning);
}

Collective gather_of(int64_t count) {
  return {.kind = CollectiveKind::AllGather, .count = count};
}

TEST(WireStepsRanks, CarryAPayload) {
  run_steps(5, {.payload_bytes = 100}, [](WireSteps& steps, const Deadline& deadline) {
    EXPECT_TRUE(steps.carries(100));
    EXPECT_FALSE(steps.carries(101));
    for (int round = 0; round < 5; ++round) {
      const std::vector<std::byte> mine(100, std::byte(steps.rank() + round));
      steps.begin(gather_of(round), deadline);
      steps.enter(mine);
      for (int k = 0; k < steps.size(); ++k) {
        EXPECT_EQ(steps.payload(k)[0], std::byte(k + round));
        EXPECT_EQ(steps.payload(k)[99], std::byte(k + round));
      }
    }
  });
}

TEST(WireStepsRanks, FindDifferentCallsAndStayInStep) {
  for (const int direct : {0, 16})
    for (const int ranks : {2, 3, 6, 9})
      run_steps(
          ranks,
          {.direct_ranks = direct},
          [](WireSteps& steps, const Deadline& deadline) {
            const int odd = steps.size() - 1;
            steps.begin(gather_of(steps.rank() == odd ? 8 : 7), deadline);
            const std::string what =
                message_of<InvalidArgument>([&] { steps.enter(); });
            EXPECT_TRUE(
                contains(what, text("rank ", odd, " called all_gather uint8[8]")));
            EXPECT_TRUE(contains(what, "called all_gather uint8[7]"));
            steps.begin(gather_of(9), deadline);
            steps.enter();
            EXPECT_FALSE(steps.agree(steps.rank() == 0 ? 5 : 6));
            EXPECT_EQ(steps.words()[0], 5U);
            EXPECT_EQ(steps.words()[1], 6U);
            EXPECT_TRUE(steps.agree(77));
          });
}

TEST(WireStepsRanks, OfSomeRanksLeaveTheOthersOut) {
  run_wire(4, [](const Group& world) {
    if (world.rank() == 1)
      return;
    WireSteps steps(dynamic_cast<WireEngine&>(world.engine()).share_wire(), {0, 2, 3});
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    steps.begin(gather_of(1), deadline);
    steps.enter();
    const auto mine = std::byte(world.rank());
    std::byte all[3];
    gather_all(steps, {&mine, 1}, all);
    EXPECT_EQ(all[0], std::byte{0});
    EXPECT_EQ(all[1], std::byte{2});
    EXPECT_EQ(all[2], std::byte{3});
  });
}

}  // namespace
}  // namespace trireme::comm
