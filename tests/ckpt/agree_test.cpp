#include "trireme/ckpt/agree.h"

#include "helpers.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/world.h"

namespace trireme::ckpt {
namespace {

using std::chrono::milliseconds;

TEST(CheckpointAgreeRanks, EveryRankGetsEverybodysText) {
  for (const int ranks : {1, 3})
    testing::run_world(testing::Backend::Local, ranks, [&](const comm::Group& world) {
      const auto all = agree(world, milliseconds(0), [&] {
        return std::string(static_cast<size_t>(world.rank()), 'x');
      });
      ASSERT_EQ(all.size(), static_cast<size_t>(ranks));
      for (size_t rank = 0; rank < all.size(); ++rank)
        EXPECT_EQ(all[rank], std::string(rank, 'x'));
    });
}

TEST(CheckpointAgreeRanks, OneRanksErrorReachesAllAndTheGroupGoesOn) {
  testing::run_world(testing::Backend::Local, 4, [](const comm::Group& world) {
    const comm::Group half = world.split(world.rank() / 2);
    const auto body = [&]() -> std::string {
      if (world.rank() == 3)
        throw InvalidArgument("[ckpt] no");
      return "yes";
    };
    if (world.rank() == 3) {
      EXPECT_EQ(refusal([&] { agree(half, milliseconds(0), body); }), "[ckpt] no");
    } else if (world.rank() == 2) {
      try {
        agree(half, milliseconds(0), body);
        ADD_FAILURE();
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 3);
        EXPECT_STREQ(error.what(), "[ckpt] rank 1 (world rank 3): [ckpt] no");
      }
    } else {
      EXPECT_EQ(agree(half, milliseconds(0), body).size(), 2U);
    }
    comm::barrier(world);
  });
}

}  // namespace
}  // namespace trireme::ckpt
