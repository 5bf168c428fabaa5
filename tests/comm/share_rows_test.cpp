#include "trireme/comm/share_rows.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using testing::Backend;
using Row = std::vector<int64_t>;

Row share(const Group& world, const Row& row) {
  return share_rows(
      world.engine(),
      CollectiveKind::AllGatherUneven,
      row,
      Deadline::after(std::chrono::seconds(20)));
}

TEST(ShareRowsRanks, GivesEverybodysInRankOrder) {
  for (const Backend backend : {Backend::Local, Backend::ShmThreads})
    testing::run_world(backend, 3, [](const Group& world) {
      const int64_t own = world.rank();
      EXPECT_EQ(share(world, {own, -own}), (Row{0, 0, 1, -1, 2, -2}));
      EXPECT_EQ(share(world, {}), Row{});
    });
}

TEST(ShareRowsRanks, RefusesRowsOfDifferentLengths) {
  testing::run_world(Backend::Local, 2, [](const Group& world) {
    const Row row(static_cast<size_t>(1 + world.rank()));
    EXPECT_THROW(share(world, row), InvalidArgument);
    EXPECT_EQ(share(world, {7}), (Row{7, 7}));
  });
}

}  // namespace
}  // namespace trireme::comm
