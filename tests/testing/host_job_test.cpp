#include "trireme/testing/host_job.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/core/launch_env.h"

namespace trireme::testing {
namespace {

class HostJobProcs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = Hosts::missing(); !why.empty())
      GTEST_SKIP() << why;
  }
};

TEST_F(HostJobProcs, TellsEveryRankItsPlace) {
  const Hosts hosts({.hosts = 3});
  const HostJob job(hosts, {2, 1, 3}, {.variables = {{"TRIREME_HEARTBEAT", "7"}}});
  ASSERT_EQ(job.ranks(), 6);
  EXPECT_EQ(job.host_of(2), 1);
  EXPECT_EQ(job.leader(2), 3);
  Processes processes;
  job.start(processes, [&](int rank) {
    const LaunchEnv env = read_launch_env(Environment::of_process());
    EXPECT_EQ(env.rank, rank);
    EXPECT_EQ(env.world_size, 6);
    EXPECT_EQ(env.local_rank, rank - job.leader(job.host_of(rank)));
    EXPECT_EQ(env.master_addr, Hosts::address(0));
    EXPECT_EQ(read_heartbeat(Environment::of_process()), std::chrono::seconds(7));
    return 0;
  });
  expect_good_ends(processes.wait(std::chrono::seconds(30)));
}

TEST_F(HostJobProcs, MakesAWorldAndNamesTheRanksThatFail) {
  const Hosts hosts;
  const HostJob job(hosts, {2, 1});
  job.run([](const comm::Group& world) {
    EXPECT_EQ(world.size(), 3);
    comm::barrier(world);
  });
  const HostJob failing(hosts, {2, 1});
  try {
    failing.run([](const comm::Group& world) {
      if (world.rank() == 2)
        throw std::out_of_range("expected in this test");
    });
    ADD_FAILURE();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 2 (exit 1"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::testing
