#include "trireme/pipe/stage_splits.h"

#include <gtest/gtest.h>

#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

TEST(StageSplits, AreWrittenOut) {
  EXPECT_EQ(
      to_text(StageSplits{.stage = 2, .split = 12}),
      "stage 2: 12 nodes split, 0 whole, 0 twice");
  const StageSplits all{
      .stage = 1,
      .split = 3,
      .whole = {{"NativeLayerNormBackward0", 4}, {"AddmmBackward0", 1}},
      .twice = {{"MyFunction", 2}}};
  EXPECT_EQ(
      to_text(all),
      "stage 1: 3 nodes split, 5 whole (AddmmBackward0, NativeLayerNormBackward0), 2 "
      "twice (MyFunction)");
  EXPECT_EQ(all.total(), 10);
}

TEST(StageSplitsRanks, AreGatheredInTheOrderOfTheStages) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    const auto of = [](int stage) {
      return StageSplits{
          .stage = stage,
          .split = 10 + stage,
          .whole = {{std::string(static_cast<size_t>(stage), 'n'), 1 + stage}},
          .twice = {{"a", 1}, {"b", 2}}};
    };
    const auto all = gather_splits(
        world,
        world.rank() == 0 ? std::vector{of(0), of(3)} : std::vector{of(1), of(2)});
    EXPECT_EQ(all, (std::vector{of(0), of(1), of(2), of(3)}));
  });
}

}  // namespace
}  // namespace trireme::pipe
