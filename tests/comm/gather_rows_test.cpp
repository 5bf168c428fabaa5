#include "trireme/comm/gather_rows.h"

#include <gtest/gtest.h>

#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

TEST(GatherRowsRanks, RowsMayHaveDifferentLengths) {
  testing::run_world(testing::Backend::Local, 3, [](const Group& world) {
    const std::vector<int64_t> mine(static_cast<size_t>(world.rank()), world.rank());
    EXPECT_EQ(
        gather_rows(world, mine), (std::vector<std::vector<int64_t>>{{}, {1}, {2, 2}}));
  });
}

}  // namespace
}  // namespace trireme::comm
