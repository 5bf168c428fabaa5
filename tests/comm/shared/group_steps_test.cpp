#include "trireme/comm/shared/group_steps.h"

#include <array>
#include <atomic>
#include <cstring>
#include <span>

#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

// A payload fills its line to the last byte, and stays until the next call but one.
TEST(GroupStepsRanks, PublishAPayloadToEverybody) {
  run_steps(4, [](GroupSteps& steps) {
    using Line = std::array<int64_t, CallSlot::kPayload / sizeof(int64_t)>;
    const auto line_of = [](int rank, int64_t round) {
      Line line;
      for (size_t i = 0; i < line.size(); ++i)
        line[i] = rank * 1000000 + round * 100 + static_cast<int64_t>(i);
      return line;
    };
    const Deadline deadline = in_time();
    for (int64_t round = 0; round < 200; ++round) {
      const Line own = line_of(steps.rank(), round);
      steps.begin({.kind = CollectiveKind::Barrier}, deadline);
      steps.enter(std::as_bytes(std::span(own)));
      for (int peer = 0; peer < 4; ++peer) {
        Line got;
        std::memcpy(got.data(), steps.payload(peer), sizeof got);
        ASSERT_EQ(got, line_of(peer, round)) << "of rank " << peer;
      }
    }
  });
}

// The ranks had staged different amounts when they found out: the next staged call must
// find everybody's data at the same place all the same.
TEST(GroupStepsRanks, AStagedCallAfterAMismatchIsRight) {
  run_staged(
      3,
      [](SharedEngine& engine) {
        const auto reduce = [&](size_t count) {
          std::vector<int32_t> values(count, engine.rank() + 1);
          const Piece piece = piece_of(values);
          engine.run(
              {.kind = CollectiveKind::AllReduce,
               .dtype = c10::ScalarType::Int,
               .count = static_cast<int64_t>(count),
               .give = {&piece, 1},
               .take = {&piece, 1}},
              in_time());
          return values;
        };
        for (int round = 0; round < 4; ++round) {
          // Rank 1 stages twice as much as the others.
          EXPECT_THROW(reduce(engine.rank() == 1 ? 400 : 200), InvalidArgument);
          for (int again = 0; again < 5; ++again)  // 4 KiB each
            EXPECT_EQ(reduce(1024), std::vector<int32_t>(1024, 6)) << round;
        }
      },
      {.staging_bytes = 64 << 10});
}

// Every algorithm across the wrap-around of the counters, with ranks that are no power
// of two.
TEST(GroupStepsRanks, GoOnWhenTheCounterOfStepsWrapsAround) {
  for (const bool reachable : {false, true})
    run_staged(
        3,
        [](SharedEngine& engine) {
          const auto own = static_cast<size_t>(engine.rank());
          for (int round = 0; round < 12; ++round)
            for (const size_t count : {1, 100, 700, 5000}) {
              std::vector<int32_t> values(count, engine.rank() + round);
              const Piece piece = piece_of(values);
              engine.run(
                  {.kind = CollectiveKind::AllReduce,
                   .dtype = c10::ScalarType::Int,
                   .count = static_cast<int64_t>(count),
                   .give = {&piece, 1},
                   .take = {&piece, 1}},
                  in_time());
              ASSERT_EQ(values, std::vector<int32_t>(count, 3 + 3 * round));
              std::vector<int32_t> all(3 * count);
              std::vector<Piece> take;
              for (size_t k = 0; k < 3; ++k)
                take.push_back(
                    {reinterpret_cast<std::byte*>(all.data() + k * count),
                     count * sizeof(int32_t)});
              std::fill(values.begin(), values.end(), engine.rank());
              engine.run(
                  {.kind = CollectiveKind::AllGather,
                   .dtype = c10::ScalarType::Int,
                   .count = static_cast<int64_t>(count),
                   .give = {&piece, 1},
                   .take = take},
                  in_time());
              for (size_t k = 0; k < 3; ++k)
                ASSERT_EQ(all[(k + 1) * count - 1], static_cast<int32_t>(k)) << own;
            }
          engine.split(0, 0, in_time())
              ->run({.kind = CollectiveKind::Barrier}, in_time());
        },
        {.reachable = reachable, .first_step = 0xffffffc0});
}

// The names that a rank is given when a step times out are right there, too.
TEST(GroupStepsRanks, NameTheMissingAcrossTheWrapAround) {
  std::atomic<bool> over{false};
  run_staged(
      2,
      [&over](SharedEngine& engine) {
        for (int i = 0; i < 4; ++i)
          engine.run({.kind = CollectiveKind::Barrier}, in_time());
        if (engine.rank() == 1) {
          EXPECT_TRUE(eventually([&] { return over.load(); }));
        } else {
          const std::string what = testing::message_of<TimeoutError>([&] {
            engine.run(
                {.kind = CollectiveKind::Barrier},
                Deadline::after(std::chrono::milliseconds(30)));
          });
          EXPECT_TRUE(testing::contains(what, "but rank 1 did not come"));
          EXPECT_TRUE(testing::contains(what, "at barrier (step 3 of the world)"));
          over = true;
        }
      },
      {.first_step = 0xfffffffd});
}

/// A single rank's steps, whose staging the test can look at.
class StagingTest : public ::testing::Test {
 protected:
  std::shared_ptr<HeapMemory> memory_ = std::make_shared<HeapMemory>();
  std::shared_ptr<World> world_ = std::make_shared<World>(WorldSetup{
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

/// Memory that has no block of some size for one of the ranks.
class ScarceHeap : public PrivateHeap {
 public:
  uint64_t allocate(size_t bytes) override {
    if (bytes >= too_much && --left < 0)
      throw InvalidArgument("[comm] expected memory, got none");
    return PrivateHeap::allocate(bytes);
  }
  std::atomic<size_t> too_much = ~size_t{0};
  std::atomic<int> left = 0;
};

constexpr size_t kAllStaging = size_t{4} << 20;
const Collective kLargeSum{
    .kind = CollectiveKind::AllReduce,
    .dtype = c10::ScalarType::Float,
    .count = 300'000};

// Every rank gives ones, and all get how many they are.
void sum_ones(SharedEngine& engine, int64_t count = kLargeSum.count) {
  std::vector<float> data(static_cast<size_t>(count), 1);
  const Piece piece{
      .data = reinterpret_cast<std::byte*>(data.data()),
      .bytes = data.size() * sizeof(float)};
  Collective call = kLargeSum;
  call.count = count;
  call.give = call.take = {&piece, 1};
  engine.run(call, in_time());
  EXPECT_EQ(data.front(), static_cast<float>(engine.size()));
  EXPECT_EQ(data.back(), static_cast<float>(engine.size()));
}

TEST(GroupStepsRanks, TakeTheirWholeStagingWithTheFirstCallThatNeedsIt) {
  const auto memory = std::make_shared<ScarceHeap>();
  memory->too_much = kAllStaging;  // nobody may take it yet
  run_staged(
      3,
      [&](SharedEngine& engine) {
        engine.run({.kind = CollectiveKind::Barrier}, in_time());
        memory->left = 3;  // one block a rank, and no second one
        engine.run({.kind = CollectiveKind::Barrier}, in_time());
        sum_ones(engine);
        sum_ones(engine);
      },
      {.staging_bytes = kAllStaging, .memory = memory});
}

// 64 KiB is staged as it is. The first staging is as large as a cache, where the peers'
// reading costs twice as much as beyond it.
TEST(GroupStepsRanks, TakeTheirWholeStagingOnceSmallCallsHaveWalkedThroughTheFirst) {
  constexpr int64_t kSmall = (64 << 10) / sizeof(float);
  for (const int left : {0, 2, 3}) {
    const auto memory = std::make_shared<ScarceHeap>();
    memory->too_much = kAllStaging;
    memory->left = left;
    run_staged(
        3,
        [&](SharedEngine& engine) {
          for (int call = 0; call < 40; ++call)
            sum_ones(engine, kSmall);
        },
        {.staging_bytes = kAllStaging, .memory = memory});
    EXPECT_EQ(memory->left == 0, left == 3) << left << " ranks may have it all";
  }
}

TEST(GroupStepsRanks, FailTogetherWhereOneHasNoMemoryForMoreStaging) {
  const auto memory = std::make_shared<ScarceHeap>();
  memory->too_much = kAllStaging;
  memory->left = 2;
  std::atomic<int> without{0};
  run_staged(
      3,
      [&](SharedEngine& engine) {
        const std::string what =
            testing::message_of<InvalidArgument>([&] { sum_ones(engine); });
        without += what == "[comm] expected memory, got none";
        engine.run({.kind = CollectiveKind::Barrier}, in_time());
        memory->left = 3;
        engine.run({.kind = CollectiveKind::Barrier}, in_time());
        sum_ones(engine);
      },
      {.staging_bytes = kAllStaging, .memory = memory});
  EXPECT_EQ(without.load(), 1) << "the others hear of it";
}

TEST_F(StagingTest, RefusesWorkOnceTheWorldHasStopped) {
  world_->stop({.why = "over"});
  EXPECT_THROW(steps_.begin({}, deadline_), PeerError);
}

}  // namespace
}  // namespace trireme::comm
