#include "trireme/comm/shared/group_steps.h"

#include <cstring>

#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

TEST(GroupStepsRanks, PublishAPayloadToEverybody) {
  run_staged(4, [](SharedEngine& engine) {
    // all_gather of three words fits into the line of the call itself or the staging;
    // either way every rank sees every other's.
    for (int64_t round = 0; round < 200; ++round) {
      std::vector<int64_t> own = {engine.rank() * 100 + round}, all(4);
      std::vector<Piece> take;
      for (int64_t& word : all)
        take.push_back({reinterpret_cast<std::byte*>(&word), sizeof word});
      const Piece give = piece_of(own);
      engine.run(
          {.kind = CollectiveKind::AllGather,
           .dtype = c10::ScalarType::Long,
           .count = 1,
           .give = {&give, 1},
           .take = take},
          in_time());
      EXPECT_EQ(
          all, (std::vector<int64_t>{round, 100 + round, 200 + round, 300 + round}));
    }
  });
}

/// A single rank's steps, whose staging the test can look at.
class StagingTest : public ::testing::Test {
 protected:
  std::shared_ptr<HeapMemory> memory_ = std::make_shared<HeapMemory>();
  std::shared_ptr<World> world_ = std::make_shared<World>(WorldPlace{
      .memory = memory_, .control = make_world(*memory_, 1), .staging_bytes = 2048});
  GroupSteps steps_{
      world_, world_->control().root_group.load(), std::vector<int>{0}, 0, in_time()};
  Deadline deadline_ = in_time();
};

TEST_F(StagingTest, ConsecutiveStepsUseDifferentHalves) {
  steps_.begin({}, deadline_);
  size_t last = steps_.stage(100) / steps_.half_bytes();
  for (int i = 0; i < 10; ++i) {
    steps_.meet();
    const size_t half = steps_.stage(100) / steps_.half_bytes();
    EXPECT_NE(half, last);
    last = half;
  }
}

TEST_F(StagingTest, PlacesWithinAStepDoNotOverlapAndStayInside) {
  steps_.begin({}, deadline_);
  const size_t a = steps_.stage(300);
  const size_t b = steps_.stage(500);
  EXPECT_GE(b, a + 300);
  EXPECT_LE(b % steps_.half_bytes() + 500, steps_.half_bytes());
  EXPECT_LE(steps_.stage(steps_.half_bytes()) % steps_.half_bytes(), 0U);
  EXPECT_THROW(steps_.stage(steps_.half_bytes() + 1), InternalError);
}

TEST_F(StagingTest, RefusesWorkOnceTheWorldHasStopped) {
  world_->stop(0, "over");
  EXPECT_THROW(steps_.begin({}, deadline_), PeerError);
}

}  // namespace
}  // namespace trireme::comm
