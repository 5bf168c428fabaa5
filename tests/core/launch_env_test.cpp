// What each launcher's variables mean, and every way in which they can be wrong.
#include "trireme/core/launch_env.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme {
namespace {

using Variables = Environment::Variables;

const Variables kTorchrun{
    {"RANK", "5"},
    {"WORLD_SIZE", "8"},
    {"LOCAL_RANK", "1"},
    {"LOCAL_WORLD_SIZE", "4"},
    {"MASTER_ADDR", "node0"},
    {"MASTER_PORT", "29500"},
    {"TORCHELASTIC_RUN_ID", "job7"},
    {"TORCHELASTIC_RESTART_COUNT", "2"}};

const Variables kOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "1"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
    {"PMIX_NAMESPACE", "3735093249"}};

const Variables kSlurm{
    {"SLURM_PROCID", "6"},
    {"SLURM_NTASKS", "7"},
    {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "3"},
    {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
    {"SLURM_JOB_ID", "4711"},
    {"SLURM_STEP_ID", "2"}};

Variables changed(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) {
    base.insert_or_assign(name, value);
  }
  return base;
}

Variables without(Variables base, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    base.erase(name);
  }
  return base;
}

LaunchEnv read(const Variables& variables) {
  return read_launch_env(Environment(variables));
}

std::string error_of(const Variables& variables) {
  return testing::message_of<InvalidArgument>([&] { read(variables); });
}

void expect_error(const Variables& variables, const std::string& part) {
  const std::string what = error_of(variables);
  EXPECT_TRUE(what.starts_with("[core] expected ")) << what;
  EXPECT_NE(what.find(part), std::string::npos) << what << "\n  lacks: " << part;
}

TEST(LaunchEnv, NoVariablesMeanAWorldOfOne) {
  const LaunchEnv launch = read({{"MASTER_PORT", "rubbish"}});
  EXPECT_EQ(launch.launcher, Launcher::None);
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.world_size, 1);
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_EQ(launch.local_world_size, 1);
  EXPECT_EQ(launch.run_id, "");
  EXPECT_TRUE(launch.one_host());
  EXPECT_FALSE(launch.has_master());
}

TEST(LaunchEnv, ReadsTorchrun) {
  const LaunchEnv launch = read(kTorchrun);
  EXPECT_EQ(launch.launcher, Launcher::Torchrun);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world_size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world_size, 4);
  EXPECT_EQ(launch.master_addr, "node0");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_EQ(launch.run_id, "job7");
  EXPECT_EQ(launch.restart_count, 2);
  EXPECT_FALSE(launch.one_host());
  EXPECT_TRUE(launch.has_master());
}

TEST(LaunchEnv, LocalVariablesDefaultOnLoopback) {
  for (const char* address : {"127.0.0.1", "127.8.0.1", "localhost", "::1", "[::1]"}) {
    const LaunchEnv launch = read(
        {{"RANK", "2"},
         {"WORLD_SIZE", "4"},
         {"MASTER_ADDR", address},
         {"MASTER_PORT", "1"}});
    EXPECT_EQ(launch.local_rank, 2) << address;
    EXPECT_TRUE(launch.one_host()) << address;
    EXPECT_EQ(launch.master_addr, address);
  }
}

TEST(LaunchEnv, LocalVariablesAndAddressDefaultWithoutAnAddress) {
  const LaunchEnv launch =
      read({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "65535"}});
  EXPECT_EQ(launch.local_rank, 2);
  EXPECT_TRUE(launch.one_host());
  EXPECT_EQ(launch.master_addr, "127.0.0.1");
  EXPECT_EQ(launch.run_id, "");
  EXPECT_EQ(launch.restart_count, 0);
}

TEST(LaunchEnv, LocalVariablesAreNeededWithAnotherAddress) {
  expect_error(
      without(kTorchrun, {"LOCAL_RANK"}),
      "expected LOCAL_RANK, got none: it is not set while MASTER_ADDR=\"node0\"");
  expect_error(
      without(kTorchrun, {"LOCAL_WORLD_SIZE"}), "expected LOCAL_WORLD_SIZE, got none");
  expect_error(
      changed(without(kTorchrun, {"LOCAL_RANK"}), {{"MASTER_ADDR", "127.evil.org"}}),
      "expected LOCAL_RANK, got none: it is not set");
}

LaunchRole role(const Variables& variables) {
  return read_launch_role(Environment(variables));
}

const Variables kServer = changed(
    kTorchrun, {{"ROLE_NAME", "server"}, {"ROLE_RANK", "1"}, {"ROLE_WORLD_SIZE", "2"}});

TEST(LaunchRole, IsWhatTorchrunSays) {
  EXPECT_EQ(role(kServer), (LaunchRole{.name = "server", .rank = 1, .size = 2}));
}

TEST(LaunchRole, IsOfAllWhereNothingIsSaid) {
  EXPECT_EQ(role({}), LaunchRole{});
  EXPECT_EQ(role(kTorchrun), (LaunchRole{.name = "default", .rank = 5, .size = 8}));
}

TEST(LaunchRole, IsNotReadUnderOtherLaunchers) {
  const Variables stale{{"ROLE_NAME", "server"}, {"ROLE_RANK", "rubbish"}};
  EXPECT_EQ(role(stale), LaunchRole{});
  EXPECT_EQ(
      role(changed(kOpenMpi, stale)),
      (LaunchRole{.name = "default", .rank = 1, .size = 4}));
  EXPECT_EQ(
      role(changed(kSlurm, stale)),
      (LaunchRole{.name = "default", .rank = 6, .size = 7}));
}

TEST(LaunchRole, RefusesWhatIsMissingOrContradictory) {
  const std::pair<Variables, const char*> cases[] = {
      {without(kServer, {"ROLE_NAME"}), "ROLE_NAME"},
      {without(kServer, {"ROLE_RANK"}), "ROLE_RANK"},
      {without(kServer, {"ROLE_WORLD_SIZE"}), "ROLE_WORLD_SIZE"},
      {changed(kServer, {{"ROLE_NAME", ""}}), "ROLE_NAME"},
      {changed(kServer, {{"ROLE_RANK", "-1"}}), "ROLE_RANK"},
      {changed(kServer, {{"ROLE_RANK", "x"}}), "ROLE_RANK"},
      {changed(kServer, {{"ROLE_RANK", "2"}}),
       "expected ROLE_RANK below ROLE_WORLD_SIZE=2, got 2"},
      {changed(kServer, {{"ROLE_WORLD_SIZE", "0"}}), "ROLE_WORLD_SIZE"},
      {changed(kServer, {{"ROLE_WORLD_SIZE", "9"}}),
       "expected ROLE_WORLD_SIZE at most WORLD_SIZE=8, got 9"}};
  for (const auto& [variables, part] : cases) {
    const std::string what =
        testing::message_of<InvalidArgument>([&] { role(variables); });
    EXPECT_TRUE(what.starts_with("[core] expected ")) << what;
    EXPECT_TRUE(testing::contains(what, part));
  }
}

TEST(LaunchEnv, KnowsTheWorldOfItsHost) {
  const LaunchEnv many{
      .rank = 5,
      .world_size = 8,
      .local_rank = 1,
      .local_world_size = 2,
      .run_id = "job"};
  const LaunchEnv here = many.on_this_host();
  EXPECT_EQ(here.rank, 1);
  EXPECT_EQ(here.world_size, 2);
  EXPECT_TRUE(here.one_host());
  LaunchEnv neighbour = many;
  neighbour.rank = 4;
  neighbour.local_rank = 0;
  EXPECT_EQ(neighbour.on_this_host().run_id, here.run_id);
  LaunchEnv other = many;
  other.rank = 7;
  EXPECT_NE(other.on_this_host().run_id, here.run_id);
  const LaunchEnv one{
      .rank = 1, .world_size = 2, .local_rank = 1, .local_world_size = 2};
  EXPECT_EQ(one.on_this_host().run_id, "");
}

TEST(LaunchEnv, OneRankNeedsNeitherAddressNorPort) {
  const LaunchEnv alone = read({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(alone.launcher, Launcher::Torchrun);
  EXPECT_EQ(alone.master_port, 0);
  EXPECT_TRUE(
      read({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "node0"}}).one_host());
}

TEST(LaunchEnv, RankAndWorldSizeNeedEachOther) {
  expect_error(without(kTorchrun, {"WORLD_SIZE"}), "WORLD_SIZE to be a whole number");
  expect_error(without(kTorchrun, {"RANK"}), "expected RANK to be a whole number");
}

TEST(LaunchEnv, SeveralHostsNeedAnAddress) {
  expect_error(without(kTorchrun, {"MASTER_ADDR"}), "MASTER_ADDR to be some text");
}

TEST(LaunchEnv, SeveralRanksNeedAPort) {
  expect_error(without(kTorchrun, {"MASTER_PORT"}), "MASTER_PORT to be a whole number");
}

TEST(LaunchEnv, NamesEveryValueThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"RANK", ""},
      {"RANK", "x"},
      {"RANK", "-1"},
      {"WORLD_SIZE", "0"},
      {"WORLD_SIZE", "-8"},
      {"WORLD_SIZE", "1000001"},
      {"WORLD_SIZE", "8 "},
      {"LOCAL_RANK", "1.5"},
      {"LOCAL_RANK", "-1"},
      {"LOCAL_WORLD_SIZE", "0"},
      {"MASTER_ADDR", ""},
      {"MASTER_ADDR", "node0 "},
      {"MASTER_PORT", "0"},
      {"MASTER_PORT", "65536"},
      {"MASTER_PORT", "http"},
      {"TORCHELASTIC_RUN_ID", ""},
      {"TORCHELASTIC_RESTART_COUNT", "-1"}};
  for (const auto& [name, value] : cases) {
    const std::string what = error_of(changed(kTorchrun, {{name, value}}));
    EXPECT_TRUE(what.starts_with(std::string("[core] expected ") + name + " to be "))
        << what;
    EXPECT_NE(what.find(std::string("got \"") + value + "\""), std::string::npos)
        << what;
  }
}

TEST(LaunchEnv, RanksStayBelowTheirSizes) {
  EXPECT_EQ(
      error_of(changed(kTorchrun, {{"RANK", "8"}})),
      "[core] expected RANK below WORLD_SIZE=8, got 8; ranks count from 0, so correct "
      "one of "
      "the two");
  expect_error(
      changed(kTorchrun, {{"LOCAL_RANK", "4"}}), "LOCAL_RANK below LOCAL_WORLD_SIZE=4");
  expect_error(
      changed(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}),
      "LOCAL_WORLD_SIZE at most WORLD_SIZE=8, got 9");
}

TEST(LaunchEnv, ReadsOpenMpiWithoutAPort) {
  const LaunchEnv launch = read(kOpenMpi);
  EXPECT_EQ(launch.launcher, Launcher::OpenMpi);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_TRUE(launch.one_host());
  EXPECT_EQ(launch.run_id, "3735093249");
  EXPECT_EQ(launch.master_addr, "127.0.0.1");
  EXPECT_EQ(launch.master_port, 0);
}

TEST(LaunchEnv, OpenMpiUsesPortAndAddressIfSet) {
  const auto launch =
      read(changed(kOpenMpi, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}}));
  EXPECT_EQ(launch.master_addr, "node0");
  EXPECT_EQ(launch.master_port, 29500);
  expect_error(changed(kOpenMpi, {{"MASTER_PORT", "0"}}), "MASTER_PORT");
}

TEST(LaunchEnv, OpenMpiOnSeveralHostsInventsNoAddress) {
  const auto launch = read(changed(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_FALSE(launch.one_host());
  EXPECT_EQ(launch.master_addr, "");
  EXPECT_FALSE(launch.has_master());
}

TEST(LaunchEnv, OpenMpiTakesTheOldJobIdOrElseNeedsAPort) {
  const Variables bare = without(kOpenMpi, {"PMIX_NAMESPACE"});
  EXPECT_EQ(read(changed(bare, {{"OMPI_MCA_ess_base_jobid", "12"}})).run_id, "12");
  EXPECT_EQ(read(changed(bare, {{"MASTER_PORT", "29500"}})).run_id, "");
  expect_error(bare, "expected PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid or MASTER_PORT");
}

TEST(LaunchEnv, OpenMpiErrorsNameItsOwnVariables) {
  expect_error(
      changed(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}}),
      "OMPI_COMM_WORLD_RANK below OMPI_COMM_WORLD_SIZE=4");
  expect_error(
      changed(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "5"}}),
      "OMPI_COMM_WORLD_LOCAL_RANK below OMPI_COMM_WORLD_LOCAL_SIZE=4");
  expect_error(
      without(kOpenMpi, {"OMPI_COMM_WORLD_SIZE"}), "OMPI_COMM_WORLD_SIZE to be");
  expect_error(
      without(kOpenMpi, {"OMPI_COMM_WORLD_LOCAL_SIZE"}),
      "OMPI_COMM_WORLD_LOCAL_SIZE to");
}

TEST(LaunchEnv, ReadsAStepOfSrun) {
  const LaunchEnv launch = read(changed(kSlurm, {{"SLURM_RESTART_COUNT", "1"}}));
  EXPECT_EQ(launch.launcher, Launcher::Slurm);
  EXPECT_EQ(launch.rank, 6);
  EXPECT_EQ(launch.world_size, 7);
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_EQ(launch.local_world_size, 1);
  EXPECT_EQ(launch.run_id, "4711.2");
  EXPECT_EQ(launch.restart_count, 1);
  EXPECT_EQ(launch.master_addr, "");
}

TEST(LaunchEnv, TheBodyOfABatchScriptIsNoRank) {
  EXPECT_EQ(read(without(kSlurm, {"SLURM_STEP_ID"})).launcher, Launcher::None);
  EXPECT_EQ(
      read(changed(kSlurm, {{"SLURM_STEP_ID", "4294967291"}})).launcher,
      Launcher::None);
}

TEST(LaunchEnv, SlurmErrorsNameItsOwnVariables) {
  expect_error(
      changed(kSlurm, {{"SLURM_PROCID", "7"}}), "SLURM_PROCID below SLURM_NTASKS=7");
  expect_error(
      changed(kSlurm, {{"SLURM_LOCALID", "1"}}),
      "SLURM_LOCALID below the tasks on this node=1, got 1");
  expect_error(without(kSlurm, {"SLURM_LOCALID"}), "SLURM_LOCALID to be");
  expect_error(without(kSlurm, {"SLURM_NTASKS"}), "SLURM_NTASKS to be");
  expect_error(without(kSlurm, {"SLURM_JOB_ID"}), "SLURM_JOB_ID to be");
  expect_error(
      changed(
          without(kSlurm, {"SLURM_STEP_TASKS_PER_NODE"}),
          {{"SLURM_NTASKS_PER_NODE", "8"}}),
      "SLURM_NTASKS_PER_NODE to be a whole number from 1 to 7, got \"8\"");
}

TEST(LaunchEnv, TorchrunWinsOverMpiAndMpiOverSlurm) {
  Variables all = changed(kSlurm, kOpenMpi);
  EXPECT_EQ(read(all).launcher, Launcher::OpenMpi);
  EXPECT_EQ(read(changed(all, kTorchrun)).launcher, Launcher::Torchrun);
}

TEST(LaunchEnv, LaunchersHaveNames) {
  EXPECT_STREQ(to_string(Launcher::None), "none");
  EXPECT_STREQ(to_string(Launcher::Torchrun), "torchrun");
  EXPECT_STREQ(to_string(Launcher::OpenMpi), "OpenMPI");
  EXPECT_STREQ(to_string(Launcher::Slurm), "Slurm");
}

TEST(LaunchEnv, HeartbeatIsTenSecondsOrWhatTheVariableSays) {
  using namespace std::chrono;
  EXPECT_EQ(read_heartbeat(Environment()), seconds(10));
  EXPECT_EQ(
      read_heartbeat(Environment{{"TRIREME_HEARTBEAT", "1.5"}}), milliseconds(1500));
  for (const char* value : {"0", "0.9", "-1", "10s"}) {
    EXPECT_THROW(
        read_heartbeat(Environment{{"TRIREME_HEARTBEAT", value}}), InvalidArgument)
        << value;
  }
}

TEST(LaunchEnv, TimeoutIsFiveMinutesOrWhatTheVariableSays) {
  using namespace std::chrono;
  EXPECT_EQ(read_timeout(Environment()), minutes(5));
  EXPECT_EQ(read_timeout(Environment{{"TRIREME_TIMEOUT", "1.5"}}), milliseconds(1500));
  EXPECT_EQ(read_timeout(Environment{{"TRIREME_TIMEOUT", "86400"}}), hours(24));
  for (const char* value : {"0", "-1", "86400.5", "5m", ""}) {
    EXPECT_THROW(read_timeout(Environment{{"TRIREME_TIMEOUT", value}}), InvalidArgument)
        << value;
  }
}

TEST(LaunchEnv, ThreadsAreWhatTheVariableSaysOrAShareOfTheCores) {
  EXPECT_EQ(rank_threads(Environment(), 6, 6), 6) << "a world of one";
  const Variables four{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "1"}};
  EXPECT_EQ(rank_threads(Environment(four), 16, 32), 4);
  EXPECT_EQ(rank_threads(Environment(four), 2, 2), 1) << "more ranks than cores";
  const Variables mpi{
      {"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "4"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
      {"PMIX_NAMESPACE", "7"}};
  EXPECT_EQ(rank_threads(Environment(mpi), 16, 16), 4) << "not bound";
  EXPECT_EQ(rank_threads(Environment(mpi), 2, 16), 2) << "bound to cores of its own";
  EXPECT_EQ(rank_threads(Environment(mpi), 8, 16), 4) << "bound with another rank";
  for (const auto& [value, threads] :
       {std::pair("7", 7), {"3,2", 3}, {"0", 1}, {"many", 1}, {"", 1}, {"-2", 1}}) {
    Variables set = four;
    set["OMP_NUM_THREADS"] = value;
    EXPECT_EQ(rank_threads(Environment(set), 4, 4), threads) << value;
  }
}

}  // namespace
}  // namespace trireme
