#include "trireme/pipe/core_share.h"

#include <gtest/gtest.h>

#include "trireme/core/machine.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

double on_one_host(const std::vector<std::vector<int>>& cpus) {
  std::vector<RankCores> ranks;
  for (const auto& one : cpus)
    ranks.push_back({.host = 7, .cpus = one});
  return cores_per_rank(ranks);
}

TEST(CoreShare, CountsEveryCpuOnce) {
  EXPECT_EQ(on_one_host({{0, 1}, {0, 1}}), 1);
  EXPECT_EQ(on_one_host({{0, 1}, {2, 3}}), 2);
  EXPECT_EQ(on_one_host({{0, 1, 2, 3}}), 4);
  EXPECT_EQ(on_one_host({{0}, {0}, {0}, {1}}), 0.5);
}

// CPU 0 of one host is not CPU 0 of another.
TEST(CoreShare, CpusBelongToTheirHost) {
  EXPECT_EQ(
      cores_per_rank({{.host = 1, .cpus = {0, 1}}, {.host = 2, .cpus = {0, 1}}}), 2);
  EXPECT_EQ(
      cores_per_rank(
          {{.host = 1, .cpus = {0, 1}},
           {.host = 1, .cpus = {0, 1}},
           {.host = 2, .cpus = {0, 1}},
           {.host = 2, .cpus = {0, 1}}}),
      1);
}

// A host with many cores does not make up for one with few.
TEST(CoreShare, TheHostWithFewestDecides) {
  EXPECT_EQ(
      cores_per_rank({{.host = 1, .cpus = {0, 1, 2, 3}}, {.host = 2, .cpus = {0}}}), 1);
}

TEST(CoreShareRanks, IsTheSameOnAllRanks) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    const auto all = gather_cores(world, own_cores());
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].host, all[1].host);
    EXPECT_EQ(cores_per_rank(all), available_cores() / 2.0);
  });
}

}  // namespace
}  // namespace trireme::pipe
