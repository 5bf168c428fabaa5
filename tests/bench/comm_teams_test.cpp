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

TEST(CommTeams, TalkToMpirunAlone) {
  const auto starts = mpirun_start({"program", "bench"}, 4, {{"NAME", "value"}});
  ASSERT_EQ(starts.size(), 1u);
  const auto& command = starts[0].command;
  EXPECT_EQ(command.front(), "mpirun");
  const std::vector<std::string> end{"-n", "4", "program", "bench", "--worker-led"};
  ASSERT_GT(command.size(), end.size());
  EXPECT_EQ(std::vector<std::string>(command.end() - 5, command.end()), end);
  EXPECT_EQ(starts[0].variables.at("NAME"), "value");
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
