#include "trireme/train/share_text.h"

#include <gtest/gtest.h>

#include "trireme/comm/init.h"

namespace trireme::train {
namespace {

TEST(ShareTextRanks, EverybodyHasWhatRankZeroHas) {
  comm::run_local(3, [](const comm::Group& world) {
    const bool first = world.rank() == 0;
    EXPECT_EQ(share_text(world, first ? "a text\n" : "another"), "a text\n");
    EXPECT_EQ(share_text(world, first ? "" : "another"), "");
  });
}

}  // namespace
}  // namespace trireme::train
