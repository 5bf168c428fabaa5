// How a rank tells its peers where its data lies.
#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/comm/shared/algorithms.h"

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
    world = std::make_shared<World>(WorldPlace{
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

}  // namespace
}  // namespace trireme::comm
