#include "trireme/comm/wire/wire_lanes.h"

#include <atomic>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

struct Lane {
  std::atomic<bool> open{false};
  WireCredit sent;
};

TEST(WireLanes, KeepTheirAccountBetweenOpenings) {
  WireLanes<Lane> lanes;
  const auto lane = lanes.open(2, 7);
  lane->sent.messages = 5;
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { lanes.open(2, 7); }),
      "the channel with rank 2 and tag 7 to be opened once"));
  EXPECT_EQ(lanes.open(2, 8)->sent.messages, 0u);
  lane->open = false;
  EXPECT_EQ(lanes.open(2, 7)->sent.messages, 5u);
}

}  // namespace
}  // namespace trireme::comm
