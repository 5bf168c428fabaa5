#include "trireme/pipe/agree.h"

#include <gtest/gtest.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

TEST(AgreeRanks, OneRanksErrorReachesAllAndTheGroupGoesOn) {
  testing::run_world(testing::Backend::Local, 3, [](const comm::Group& world) {
    const auto check = [&] {
      if (world.rank() == 1)
        throw InvalidArgument("[pipe] no");
    };
    if (world.rank() == 1) {
      EXPECT_THROW(agree(world, check), InvalidArgument);
    } else {
      try {
        agree(world, check);
        FAIL();
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 1);
        EXPECT_STREQ(error.what(), "[pipe] rank 1: [pipe] no");
      }
    }
    EXPECT_NO_THROW(agree(world, [] {}));
    comm::barrier(world);
  });
}

TEST(AgreeRanks, NamesTheRankOfTheGroupAndThatOfTheWorld) {
  testing::run_world(testing::Backend::Local, 4, [](const comm::Group& world) {
    const comm::Group half = world.split(world.rank() / 2);
    const auto check = [&] {
      if (world.rank() == 3)
        throw InvalidArgument("[pipe] no");
    };
    if (world.rank() == 2)
      try {
        agree(half, check);
        FAIL();
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 3);
        EXPECT_STREQ(error.what(), "[pipe] rank 1 (world rank 3): [pipe] no");
      }
    else if (world.rank() == 3)
      EXPECT_THROW(agree(half, check), InvalidArgument);
    else
      agree(half, check);
  });
}

}  // namespace
}  // namespace trireme::pipe
