#include "trireme/pipe/core_share.h"

#include <gtest/gtest.h>

#include "trireme/core/machine.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

TEST(CoreShare, CountsEveryCpuOnce) {
  EXPECT_EQ(cores_per_rank({{0, 1}, {0, 1}}), 1);
  EXPECT_EQ(cores_per_rank({{0, 1}, {2, 3}}), 2);
  EXPECT_EQ(cores_per_rank({{0, 1, 2, 3}}), 4);
  EXPECT_EQ(cores_per_rank({{0}, {0}, {0}, {1}}), 0.5);
}

TEST(CoreShareRanks, IsTheSameOnAllRanks) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    EXPECT_EQ(cores_per_rank(world), available_cores() / 2.0);
  });
}

}  // namespace
}  // namespace trireme::pipe
