#include "trireme/launch/variables.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/launch_env.h"
#include "trireme/core/segment_file.h"

namespace trireme::launch {
namespace {

constexpr int kCores = 12;

JobPlace place() {
  return {
      .ranks = 4,
      .local_ranks = 4,
      .run_id = "job 7",
      .master_addr = "127.0.0.1",
      .master_port = 4711,
      .restart_count = 1,
      .max_restarts = 3,
      .cores = kCores};
}

TEST(RankVariables, AreThoseOfTorchrun) {
  const auto all = rank_variables(place(), 2, Environment(), {});
  const Environment::Variables wanted = {
      {"RANK", "2"},
      {"LOCAL_RANK", "2"},
      {"ROLE_RANK", "2"},
      {"GROUP_RANK", "0"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"ROLE_WORLD_SIZE", "4"},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "4711"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "job 7"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"},
      {"OMP_NUM_THREADS", "3"}};
  EXPECT_EQ(all, wanted);
}

TEST(RankVariables, AreWhatCommInitReads) {
  const LaunchEnv launch =
      read_launch_env(Environment(rank_variables(place(), 3, Environment(), {})));
  EXPECT_EQ(launch.launcher, Launcher::Torchrun);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.local_rank, 3);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_TRUE(launch.one_host());
  EXPECT_EQ(launch.run_id, "job 7");
  EXPECT_EQ(launch.restart_count, 1);
}

TEST(RankVariables, NameTheJobAsItsLauncherDoes) {
  const LaunchEnv read =
      read_launch_env(Environment(rank_variables(place(), 3, Environment(), {})));
  EXPECT_EQ(segment_name(read), segment_name(launch_env(place())));
  JobPlace other = place();
  ++other.restart_count;
  EXPECT_NE(segment_name(read), segment_name(launch_env(other)));
}

TEST(RankVariables, CountOverAllNodes) {
  JobPlace many = place();
  many.ranks = 9;
  many.first_rank = 5;
  many.node = 2;
  many.nodes = 3;
  many.store = "tcp://node0:4712";
  const auto all = rank_variables(many, 1, Environment(), {});
  const std::pair<const char*, const char*> wanted[] = {
      {"RANK", "6"},
      {"LOCAL_RANK", "1"},
      {"ROLE_RANK", "6"},
      {"GROUP_RANK", "2"},
      {"WORLD_SIZE", "9"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"ROLE_WORLD_SIZE", "9"},
      {"GROUP_WORLD_SIZE", "3"},
      {"TRIREME_STORE", "tcp://node0:4712"},
      {"OMP_NUM_THREADS", "3"}};
  for (const auto& [name, value] : wanted)
    EXPECT_EQ(all.at(name), value) << name;
  const LaunchEnv read = read_launch_env(Environment(all));
  EXPECT_FALSE(read.one_host());
  EXPECT_EQ(
      segment_name(read.on_this_host()), segment_name(launch_env(many).on_this_host()));
}

TEST(RankVariables, TellTheRanksOfSeveralProgramsApart) {
  JobPlace two = place();
  two.roles = {{.name = "trainer", .ranks = 3}, {.name = "server", .ranks = 1}};
  const std::pair<int, LaunchRole> cases[] = {
      {0, {.name = "trainer", .rank = 0, .size = 3}},
      {2, {.name = "trainer", .rank = 2, .size = 3}},
      {3, {.name = "server", .rank = 0, .size = 1}}};
  for (const auto& [rank, role] : cases) {
    const Environment env(rank_variables(two, rank, Environment(), {}));
    EXPECT_EQ(read_launch_role(env), role) << rank;
    EXPECT_EQ(read_launch_env(env).rank, rank);
    EXPECT_EQ(read_launch_env(env).world_size, 4);
  }
  EXPECT_EQ(
      read_launch_role(Environment(rank_variables(place(), 3, Environment(), {}))),
      (LaunchRole{.name = "default", .rank = 3, .size = 4}));
}

TEST(RankVariables, HaveOneWayToProtectConnections) {
  const Environment inherited{
      {"TRIREME_JOB_KEY_FILE", "job.key"}, {"TRIREME_SECURITY", "insecure-loopback"}};
  EXPECT_TRUE(has_security(inherited));
  EXPECT_FALSE(has_security(Environment{{"TRIREME_LOG", "info"}}));
  EXPECT_EQ(
      rank_variables(place(), 0, inherited, {}).at("TRIREME_JOB_KEY_FILE"), "job.key");
  JobPlace keyed = place();
  keyed.job_key = "0123";
  const auto all = rank_variables(keyed, 0, inherited, {});
  EXPECT_EQ(all.at("TRIREME_JOB_KEY"), "0123");
  EXPECT_FALSE(all.contains("TRIREME_JOB_KEY_FILE"));
  EXPECT_FALSE(all.contains("TRIREME_SECURITY"));
}

TEST(RankVariables, WinOverWhatWasSetBefore) {
  const Environment inherited{
      {"RANK", "7"},
      {"WORLD_SIZE", "9"},
      {"TORCHELASTIC_RUN_ID", "older"},
      {"HOME", "/root"},
      {"MINE", "1"},
      {"EMPTY", ""}};
  const auto all =
      rank_variables(place(), 0, inherited, {{"MINE", "2"}, {"LOCAL_RANK", "8"}});
  EXPECT_EQ(all.at("RANK"), "0");
  EXPECT_EQ(all.at("WORLD_SIZE"), "4");
  EXPECT_EQ(all.at("LOCAL_RANK"), "0");
  EXPECT_EQ(all.at("TORCHELASTIC_RUN_ID"), "job 7");
  EXPECT_EQ(all.at("HOME"), "/root");
  EXPECT_EQ(all.at("MINE"), "2");
  EXPECT_EQ(all.at("EMPTY"), "");
}

TEST(RankVariables, LeaveWhatSomebodyHasSet) {
  const Environment five{{"OMP_NUM_THREADS", "5"}};
  EXPECT_EQ(rank_variables(place(), 0, five, {}).at("OMP_NUM_THREADS"), "5");
  const Environment::Variables six{{"OMP_NUM_THREADS", "6"}};
  EXPECT_EQ(rank_variables(place(), 0, five, six).at("OMP_NUM_THREADS"), "6");
  const Environment tuned{{"GLIBC_TUNABLES", "glibc.malloc.check=3"}};
  EXPECT_EQ(
      rank_variables(place(), 0, tuned, {}).at("GLIBC_TUNABLES"),
      "glibc.malloc.check=3");
}

TEST(RankVariables, GiveEachRankAtLeastOneThread) {
  JobPlace crowded = place();
  crowded.local_ranks = kCores + 1;
  EXPECT_EQ(rank_variables(crowded, 0, Environment(), {}).at("OMP_NUM_THREADS"), "1");
}

TEST(RankVariables, KeepIdleThreadsFromSpinningWhereRanksOutnumberCores) {
  EXPECT_FALSE(
      rank_variables(place(), 0, Environment(), {}).contains("OMP_WAIT_POLICY"));
  JobPlace crowded = place();
  crowded.local_ranks = kCores + 1;
  EXPECT_EQ(
      rank_variables(crowded, 0, Environment(), {}).at("OMP_WAIT_POLICY"), "PASSIVE");
  const Environment active{{"OMP_WAIT_POLICY", "ACTIVE"}};
  EXPECT_EQ(rank_variables(crowded, 0, active, {}).at("OMP_WAIT_POLICY"), "ACTIVE");
}

TEST(FreePort, CanBeListenedAt) {
  const int port = free_port();
  ASSERT_GT(port, 0);
  ASSERT_LT(port, 65536);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket, 1), 0);
  ::close(socket);
}

TEST(FreshRunId, IsAnotherEachTime) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i)
    ids.insert(fresh_run_id());
  EXPECT_EQ(ids.size(), 1000u);
}

}  // namespace
}  // namespace trireme::launch
