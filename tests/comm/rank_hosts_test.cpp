#include "trireme/comm/rank_hosts.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "trireme/core/machine.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

double on_one_host(const std::vector<std::vector<int>>& cpus) {
  std::vector<RankHost> ranks;
  for (const auto& one : cpus)
    ranks.push_back({.kernel = 7, .cpus = one});
  return cores_per_rank(ranks);
}

TEST(RankHosts, CountsEveryCpuOnce) {
  EXPECT_EQ(on_one_host({{0, 1}, {0, 1}}), 1);
  EXPECT_EQ(on_one_host({{0, 1}, {2, 3}}), 2);
  EXPECT_EQ(on_one_host({{0, 1, 2, 3}}), 4);
  EXPECT_EQ(on_one_host({{0}, {0}, {0}, {1}}), 0.5);
}

// CPU 0 of one host is not CPU 0 of another.
TEST(RankHosts, CpusBelongToTheirKernel) {
  EXPECT_EQ(
      cores_per_rank({{.kernel = 1, .cpus = {0, 1}}, {.kernel = 2, .cpus = {0, 1}}}),
      2);
  EXPECT_EQ(
      cores_per_rank(
          {{.kernel = 1, .cpus = {0, 1}},
           {.kernel = 1, .cpus = {0, 1}},
           {.kernel = 2, .cpus = {0, 1}},
           {.kernel = 2, .cpus = {0, 1}}}),
      1);
}

// A host with many cores does not make up for one with few.
TEST(RankHosts, TheHostWithFewestDecides) {
  EXPECT_EQ(
      cores_per_rank({{.kernel = 1, .cpus = {0, 1, 2, 3}}, {.kernel = 2, .cpus = {0}}}),
      1);
}

TEST(RankHosts, MemoryIsSharedByTheRanksOfOneKernel) {
  const std::vector<RankHost> ranks{
      {.kernel = 1, .memory_bytes = 100},
      {.kernel = 1, .memory_bytes = 100},
      {.kernel = 2, .memory_bytes = 180},
      {.kernel = 2, .memory_bytes = 180}};
  EXPECT_EQ(memory_per_rank(ranks), 50);
  EXPECT_EQ(memory_per_rank({ranks[2], ranks[3]}), 90);
}

// As `trireme run --nnodes 2` tells its ranks; here both are this machine.
TEST(RankHostsProcs, TheLauncherSaysWhereAHostBegins) {
  testing::Processes processes;
  for (int rank = 0; rank < 4; ++rank)
    processes.start([rank] {
      const auto set = [](const char* name, int value) {
        ::setenv(name, std::to_string(value).c_str(), 1);
      };
      set("RANK", rank);
      set("WORLD_SIZE", 4);
      set("LOCAL_RANK", rank % 2);
      set("LOCAL_WORLD_SIZE", 2);
      set("MASTER_PORT", 1);
      ::setenv("MASTER_ADDR", "10.0.0.1", 1);
      return own_host().first_rank == rank / 2 * 2 ? 0 : 1;
    });
  for (const auto& ending : processes.wait(std::chrono::seconds(20)))
    EXPECT_EQ(ending.exit_code, 0);
}

TEST(RankHostsRanks, IsTheSameOnAllRanks) {
  testing::run_world(testing::Backend::Local, 2, [](const Group& world) {
    const auto all = gather_hosts(world, own_host());
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].kernel, all[1].kernel);
    EXPECT_EQ(cores_per_rank(all), available_cores() / 2.0);
  });
}

}  // namespace
}  // namespace trireme::comm
