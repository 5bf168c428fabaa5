#include "trireme/bench/comm_teams.h"

#include <gtest/gtest.h>

namespace trireme::bench {
namespace {

TEST(CommTeams, GiveEveryRankAHostOfItsOwn) {
  const auto starts = on_hosts_of_their_own(rank_starts({"program"}, 3, {}));
  ASSERT_EQ(starts.size(), 3u);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(starts[rank].variables.at("RANK"), std::to_string(rank));
    EXPECT_EQ(starts[rank].variables.at("LOCAL_RANK"), "0");
    EXPECT_EQ(starts[rank].variables.at("LOCAL_WORLD_SIZE"), "1");
    EXPECT_EQ(starts[rank].variables.at("GROUP_RANK"), std::to_string(rank));
  }
}

TEST(CommTeamsProcs, MeasureOverTcp) {
  CommTeams teams(TRIREME_BENCH_PROGRAM);
  const CommSide side{.team = CommTeam::Tcp, .job = {.bytes = 4096, .repetitions = 3}};
  const auto times = teams.measure(side, 2);
  ASSERT_EQ(times.size(), 3u);
  for (const double microseconds : times)
    EXPECT_GT(microseconds, 0);
}

TEST(CommTeamsProcs, MeasureOnTwoHosts) {
  if (const std::string missing = TwoHosts::missing(); !missing.empty())
    GTEST_SKIP() << missing;
  CommTeams teams(TRIREME_BENCH_PROGRAM);
  const CommSide side{
      .team = CommTeam::TcpHosts, .job = {.bytes = 1 << 20, .repetitions = 2}};
  EXPECT_EQ(teams.measure(side, 4).size(), 2u);
}

}  // namespace
}  // namespace trireme::bench
