#include "trireme/comm/shared/shared_engine.h"

#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

TEST(SharedEngineRanks, GivesMemoryThatIsAlignedAndComesBack) {
  testing::run_world(testing::Backend::ShmThreads, 2, [](const Group& world) {
    void* first = nullptr;
    for (int i = 0; i < 20; ++i) {
      const at::Tensor x = world.allocate({3, 1000}, at::kBFloat16);
      EXPECT_EQ(x.sizes(), at::IntArrayRef({3, 1000}));
      EXPECT_EQ(x.scalar_type(), at::kBFloat16);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data_ptr()) % 64, 0U);
      if (i == 0)
        first = x.data_ptr();
      EXPECT_EQ(x.data_ptr(), first);
    }
    EXPECT_THROW(world.allocate({-1}), InvalidArgument);
    EXPECT_THROW(world.allocate({1L << 40, 1L << 40}), InvalidArgument);
  });
}

TEST(SharedEngineRanks, MemoryOutlivesTheWorld) {
  at::Tensor kept;
  testing::run_world(testing::Backend::ShmThreads, 1, [&](const Group& world) {
    kept = world.allocate({100}, at::kFloat);
    kept.fill_(3);
  });
  EXPECT_EQ(kept.sum().item<float>(), 300.0F);
}

// A split that took new memory for every group would run through the segment.
TEST(SharedEngineRanks, SplitsUseTheirMemoryAgain) {
  testing::run_world(testing::Backend::ShmThreads, 2, [](const Group& world) {
    std::byte* first = nullptr;
    for (int i = 0; i < 50; ++i) {
      Group part = world.split(0);
      barrier(part);
      part.close();
      barrier(world);
      const at::Tensor probe = world.allocate({1 << 20}, at::kByte);
      auto* place = static_cast<std::byte*>(probe.data_ptr());
      if (i == 0)
        first = place;
      // Fifty times four mebibytes of staging would have pushed it further.
      EXPECT_LT(std::abs(place - first), 64 << 20);
    }
  });
}

TEST(SharedEngineRanks, RenewingUsesItsMemoryAgain) {
  testing::run_world(testing::Backend::ShmThreads, 2, [](const Group& world) {
    Group group = world;
    std::byte* first = nullptr;
    for (int i = 0; i < 30; ++i) {
      if (group.rank() == 0)
        group.abort("again");
      EXPECT_THROW(barrier(group), PeerError);
      group = group.renew();
      barrier(group);
      const at::Tensor probe = group.allocate({1 << 20}, at::kByte);
      auto* place = static_cast<std::byte*>(probe.data_ptr());
      if (i == 0)
        first = place;
      EXPECT_LT(std::abs(place - first), 64 << 20);
      barrier(group);
    }
  });
}

TEST(SharedEngineRanks, GivesEmptyTensorsAndRefusesImpossibleOnes) {
  testing::run_world(testing::Backend::ShmThreads, 1, [](const Group& world) {
    EXPECT_EQ(world.allocate({0, 5}).numel(), 0);
    EXPECT_THROW(world.allocate({0, 1L << 62, 1L << 62}), InvalidArgument);
  });
}

TEST(SharedEngineRanks, RecordsItsCalls) {
  run_staged(2, [](SharedEngine& engine) {
    EXPECT_EQ(engine.backend(), "staged");
    EXPECT_EQ(engine.members(), (std::vector<int>{0, 1}));
    EXPECT_NO_THROW(engine.check());
    engine.run({.kind = CollectiveKind::Barrier}, in_time());
  });
}

}  // namespace
}  // namespace trireme::comm
