// How a rank tells its peers where its data lies.
#include <atomic>
#include <memory>

#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/comm/shared/algorithms.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

struct Alone {
  explicit Alone(bool reachable) {
    std::shared_ptr<SharedMemory> memory;
    if (reachable)
      memory = std::make_shared<HeapMemory>();
    else
      memory = std::make_shared<PrivateHeap>();
    control = make_world(*memory, 1);
    world = std::make_shared<World>(WorldSetup{
        .memory = memory, .control = control, .staging_bytes = size_t{1} << 20});
    steps = std::make_unique<GroupSteps>(
        world, world->control().root_group.load(), std::vector<int>{0}, 0, in_time());
  }
  uint64_t control;
  std::shared_ptr<World> world;
  std::unique_ptr<GroupSteps> steps;
};

TEST(Place, TellsWhereInputAndOutputLie) {
  const Alone alone(true);
  std::vector<float> in(10), out(10);
  const Piece give = piece_of(in), take = piece_of(out);
  const Place place = place_of(*alone.steps, {.give = {&give, 1}, .take = {&take, 1}});
  EXPECT_EQ(place.reachable, 1U);
  EXPECT_EQ(alone.steps->memory().at(place.input), give.data);
  EXPECT_EQ(alone.steps->memory().at(place.output), take.data);
  EXPECT_EQ(place.stride, 0U);
}

TEST(Place, IsNotReachableInPrivateMemory) {
  const Alone alone(false);
  std::vector<float> in(10);
  const Piece give = piece_of(in);
  EXPECT_EQ(place_of(*alone.steps, {.give = {&give, 1}}).reachable, 0U);
  // Nothing to give or take hinders nobody.
  EXPECT_EQ(place_of(*alone.steps, {}).reachable, 1U);
}

TEST(Place, TellsAStrideOnlyWhereThereIsOne) {
  const Alone alone(true);
  std::vector<std::byte> memory(100);
  const auto at = [&](size_t i) { return Piece{memory.data() + i, 4}; };
  const std::vector<Piece> even = {at(0), at(10), at(20)};
  EXPECT_EQ(place_of(*alone.steps, {.give = even}).stride, 10U);
  const std::vector<Piece> uneven = {at(0), at(10), at(30)};
  EXPECT_EQ(place_of(*alone.steps, {.give = uneven}).reachable, 0U);
}

TEST(Place, LeavesRoomForTwoSmallCallsInAHalf) {
  const Alone alone(true);
  EXPECT_EQ(small_bytes(*alone.steps), size_t{64} << 10);
  EXPECT_LE(small_bytes(*alone.steps) * 2, alone.steps->half_bytes());
}

// ---- a world that stops while ranks are in one another's memory
// -----------------------------------------

/// Both ranks' data for one call of each kind, too large to be staged at once.
class InPlaceCall {
 public:
  InPlaceCall(CollectiveKind kind, int rank) : kind_(kind) {
    const auto both = [&](std::vector<Piece>& pieces, std::vector<int32_t>& values) {
      values.resize(2 * kCount);
      pieces = {part(values, 0), part(values, 1)};
    };
    const bool root = rank == 0;
    switch (kind) {
      case CollectiveKind::AllReduce:
      case CollectiveKind::Reduce:
        input_.resize(kCount);
        give_ = {piece_of(input_)};
        if (root || kind == CollectiveKind::AllReduce)
          take_ = give_;
        break;
      case CollectiveKind::ReduceScatter:
        input_.resize(2 * kCount);
        output_.resize(kCount);
        give_ = {piece_of(input_)};
        take_ = {piece_of(output_)};
        break;
      case CollectiveKind::AllToAll:
        both(give_, input_);
        both(take_, output_);
        break;
      case CollectiveKind::Scatter:
        if (root)
          both(give_, input_);
        both(take_, output_);
        take_[1].bytes = 0;
        break;
      default:  // one piece for all that read
        if (root || kind != CollectiveKind::Broadcast) {
          input_.resize(kCount);
          give_ = {piece_of(input_)};
        }
        if (root || kind != CollectiveKind::Gather)
          both(take_, output_);
        if (kind == CollectiveKind::Broadcast)
          take_[1].bytes = 0;
    }
  }
  Collective collective() const {
    const bool rooted =
        kind_ == CollectiveKind::Reduce || kind_ == CollectiveKind::Broadcast ||
        kind_ == CollectiveKind::Gather || kind_ == CollectiveKind::Scatter;
    return {
        .kind = kind_,
        .dtype = c10::ScalarType::Int,
        .root = rooted ? 0 : -1,
        .count = kCount,
        .give = give_,
        .take = take_};
  }
  void run(GroupSteps& steps) const {
    const bool reduces = kind_ == CollectiveKind::AllReduce ||
                         kind_ == CollectiveKind::Reduce ||
                         kind_ == CollectiveKind::ReduceScatter;
    reduces ? run_reduction(steps, collective()) : run_move(steps, collective());
  }

 private:
  static constexpr int64_t kCount = 1000;
  static Piece part(std::vector<int32_t>& values, size_t k) {
    const Piece all = piece_of(values);
    return {all.data + k * all.bytes / 2, all.bytes / 2};
  }
  CollectiveKind kind_;
  std::vector<int32_t> input_, output_;
  std::vector<Piece> give_, take_;
};

class InPlaceRanks : public ::testing::TestWithParam<CollectiveKind> {};

// Rank 0 is slow at it. Rank 1 has done its part, and frees its memory when its call
// ends: with AddressSanitizer the bytes that rank 0 touches afterwards would be found.
TEST_P(InPlaceRanks, NobodyLeavesWhileAPeerIsInItsMemory) {
  std::atomic<bool> inside{true};
  run_steps(2, [&](GroupSteps& steps) {
    const auto data = std::make_unique<InPlaceCall>(GetParam(), steps.rank());
    const Collective call = data->collective();
    const Deadline deadline = in_time();
    steps.begin(call, deadline);
    if (steps.rank() == 1) {
      try {
        data->run(steps);
      } catch (const PeerError&) {
      }
      EXPECT_FALSE(inside);
      return;
    }
    PerRank<Place> places(2);
    ASSERT_TRUE(enter_with_place(steps, call, places));
    steps.world().stop({.why = "a test"});
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    const SharedMemory& memory = steps.memory();
    if (const std::byte* in = memory.at(places[1].input)) {
      EXPECT_EQ(*in, std::byte{0});
    }
    // The others' outputs are written in these two alone; else rank 1 writes its own
    // just now.
    std::byte* out = memory.at(places[1].output);
    const bool shared =
        GetParam() == CollectiveKind::AllReduce || GetParam() == CollectiveKind::Reduce;
    if (out != nullptr && shared)
      *out = std::byte{0};
    inside = false;
    EXPECT_NO_THROW(steps.meet());  // rank 1 is there
  });
}

// A rank that has given up and freed its memory must not be counted as present.
TEST_P(InPlaceRanks, NobodyEntersAfterAPeerHasGivenUp) {
  std::atomic<bool> gave_up{false};
  run_steps(2, [&](GroupSteps& steps) {
    const auto data = std::make_unique<InPlaceCall>(GetParam(), steps.rank());
    const Collective call = data->collective();
    const Deadline deadline = in_time();
    steps.begin(call, deadline);
    if (steps.rank() == 1) {
      EXPECT_THROW(data->run(steps), PeerError);
      gave_up = true;
      return;
    }
    World& world = steps.world();
    const auto* group =
        steps.memory().as<GroupControl>(world.control().root_group.load());
    ASSERT_TRUE(eventually([&] { return group->meeting.arrivals.load() == 3; }));
    world.stop({.why = "a test"});
    ASSERT_TRUE(eventually([&] { return gave_up.load(); }));
    PerRank<Place> places(2);
    EXPECT_THROW(enter_with_place(steps, call, places), PeerError);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    InPlaceRanks,
    ::testing::Values(
        CollectiveKind::AllReduce,
        CollectiveKind::Reduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::Broadcast,
        CollectiveKind::AllGather,
        CollectiveKind::Gather,
        CollectiveKind::Scatter,
        CollectiveKind::AllToAll),
    [](const auto& kind) { return to_string(kind.param); });

}  // namespace
}  // namespace trireme::comm
