#include "trireme/comm/agree.h"

#include <gtest/gtest.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using testing::Backend;
using testing::message_of;
using testing::run_world;

TEST(AgreeRanks, EveryRankGetsEverybodysText) {
  for (const int ranks : {1, 3})
    run_world(Backend::Local, ranks, [&](const Group& world) {
      const std::string mine(static_cast<size_t>(world.rank()), 'x');
      const auto all = agree(world, {.module = "dp"}, [&] { return mine; });
      ASSERT_EQ(all.size(), static_cast<size_t>(ranks));
      for (size_t rank = 0; rank < all.size(); ++rank)
        EXPECT_EQ(all[rank], std::string(rank, 'x'));
      EXPECT_EQ(gather_texts(world, mine), all);
    });
}

TEST(AgreeRanks, EverybodyHasWhatRankZeroShares) {
  run_world(Backend::Local, 3, [](const Group& world) {
    const bool first = world.rank() == 0;
    EXPECT_EQ(share_text(world, first ? "a text\n" : "another"), "a text\n");
    EXPECT_EQ(share_text(world, first ? "" : "another"), "");
  });
}

TEST(AgreeRanks, OneRanksErrorReachesAllAndTheGroupGoesOn) {
  run_world(Backend::Local, 3, [](const Group& world) {
    const auto ask = [&] {
      check_everywhere(world, {.module = "pipe"}, [&] {
        if (world.rank() == 1)
          throw InvalidArgument("[pipe] no");
      });
    };
    const std::string what = world.rank() == 1 ? message_of<InvalidArgument>(ask)
                                               : message_of<PeerError>(ask);
    EXPECT_EQ(what, world.rank() == 1 ? "[pipe] no" : "[pipe] rank 1: [pipe] no");
    check_everywhere(world, {.module = "pipe"}, [] {});
    barrier(world);
  });
}

TEST(AgreeRanks, NamesTheRankOfTheGroupAndThatOfTheWorld) {
  run_world(Backend::Local, 4, [](const Group& world) {
    const Group half = world.split(world.rank() / 2);
    const auto ask = [&] {
      return agree(half, {.module = "ckpt"}, [&]() -> std::string {
        if (world.rank() == 3)
          throw InvalidArgument("");  // an error may have no text
        return "yes";
      });
    };
    if (world.rank() == 3) {
      EXPECT_EQ(message_of<InvalidArgument>(ask), "");
    } else if (world.rank() < 2) {
      EXPECT_EQ(ask(), (std::vector<std::string>{"yes", "yes"}));
    } else {
      try {
        ask();
        ADD_FAILURE();
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 3);
        EXPECT_STREQ(error.what(), "[ckpt] rank 1 (world rank 3): ");
      }
    }
    barrier(world);
  });
}

}  // namespace
}  // namespace trireme::comm
