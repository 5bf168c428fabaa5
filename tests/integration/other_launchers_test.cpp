// One program under many launchers: each tells its ranks who they are in its own words.
#include <cstdlib>

#include "../launch/launched.h"
#include "trireme/core/environment.h"
#include "trireme/launch/program.h"

namespace trireme::launch {
namespace {

using Words = std::vector<std::string>;

// Without the variables of a launcher that this test may itself run under.
void forget_launchers() {
  for (const auto& [name, value] : Environment::of_process().with_prefix(""))
    for (const char* prefix :
         {"RANK",
          "WORLD_SIZE",
          "LOCAL_",
          "MASTER_",
          "TORCHELASTIC_",
          "OMPI_",
          "PMIX_",
          "SLURM_"})
      if (name.starts_with(prefix))
        ::unsetenv(name.c_str());
}

std::function<void()> with(const Environment::Variables& variables) {
  return [variables] {
    forget_launchers();
    for (const auto& [name, value] : variables)
      ::setenv(name.c_str(), value.c_str(), 1);
  };
}

void expect_two_ranks(const std::string& out) {
  EXPECT_EQ(Launched::count(out, "rank 0 of 2: the sum is 3\n"), 1) << out;
  EXPECT_EQ(Launched::count(out, "rank 1 of 2: the sum is 3\n"), 1) << out;
}

void expect_two_ranks(Words launcher, const Environment::Variables& variables = {}) {
  launcher.emplace_back(EXAMPLE);
  Launched launched(launcher, with(variables));
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  expect_two_ranks(launched.out());
}

Environment::Variables slurm_task(int rank, int ranks) {
  // Every test program has a job of its own.
  return {
      {"SLURM_JOB_ID", text(::getpid())},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", text(rank)},
      {"SLURM_NTASKS", text(ranks)},
      {"SLURM_LOCALID", text(rank)},
      {"SLURM_NODEID", "0"},
      {"SLURM_STEP_NUM_TASKS", text(ranks)},
      {"SLURM_STEP_TASKS_PER_NODE", text(ranks)},
      {"SLURM_STEP_NODELIST", "localhost"}};
}

TEST(OtherLaunchersProcs, NoneIsAWorldOfOne) {
  Launched launched({EXAMPLE}, with({}));
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  EXPECT_EQ(launched.out(), "rank 0 of 1: the sum is 1\n");
}

TEST(OtherLaunchersProcs, TriremeRun) {
  expect_two_ranks({TRIREME_PROGRAM, "run", "-n", "2", "--"});
}

TEST(OtherLaunchersProcs, TriremeRunInsideOfOthers) {
  // As in a batch script: their variables are still there, and mean something else.
  expect_two_ranks({TRIREME_PROGRAM, "run", "-n", "2", "--"}, slurm_task(0, 1));
  expect_two_ranks(
      {TRIREME_PROGRAM, "run", "-n", "2", "--"},
      {{"OMPI_COMM_WORLD_RANK", "3"},
       {"OMPI_COMM_WORLD_SIZE", "4"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
}

TEST(OtherLaunchersProcs, SlurmByHand) {
  Launched zero({EXAMPLE}, with(slurm_task(0, 2)));
  Launched one({EXAMPLE}, with(slurm_task(1, 2)));
  EXPECT_EQ(zero.finish(), Ending{}) << zero.err();
  EXPECT_EQ(one.finish(), Ending{}) << one.err();
  expect_two_ranks(text(zero.out(), one.out()));
}

TEST(OtherLaunchersProcs, Mpirun) {
  try {
    find_program("mpirun", std::getenv("PATH"));
  } catch (const Error&) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << "there is no mpirun in PATH";
    GTEST_SKIP() << "there is no mpirun in PATH (install openmpi-bin)";
  }
  expect_two_ranks({"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"});
}

// Null where there is no torchrun to start with.
const char* python() {
  const char* set = std::getenv("TRIREME_PYTHON");
  // Whoever builds for others must not leave it out unseen.
  if (std::getenv("CI") != nullptr)
    return set != nullptr ? set : "python3";
  return set != nullptr && *set != '\0' ? set : nullptr;
}

TEST(OtherLaunchersPeer, Torchrun) {
  if (python() == nullptr)
    GTEST_SKIP() << "TRIREME_PYTHON is not set: no torchrun to start with";
  expect_two_ranks(
      {python(),
       "-m",
       "torch.distributed.run",
       "--standalone",
       "--nproc-per-node=2",
       "--no-python"});
}

// Its agent listens at MASTER_PORT itself, and our rank 0 behind it.
TEST(OtherLaunchersPeer, TorchrunOnTwoNodes) {
  if (python() == nullptr)
    GTEST_SKIP() << "TRIREME_PYTHON is not set: no torchrun to start with";
  const int port = quiet_port();
  const Environment::Variables plain = {{"TRIREME_SECURITY", "insecure-loopback"}};
  const auto command = [&](int node, const Words& more) {
    Words words = {
        python(),
        "-m",
        "torch.distributed.run",
        "--nnodes=2",
        text("--node-rank=", node)};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--nproc-per-node=1", "--no-python", EXAMPLE});
    return words;
  };
  for (const Words& more :
       {Words{"--master-addr=127.0.0.1", text("--master-port=", port)},
        Words{
            "--rdzv-backend=c10d",
            text("--rdzv-endpoint=127.0.0.1:", port),
            "--rdzv-id=job"}}) {
    Launched zero(command(0, more), with(plain));
    Launched one(command(1, more), with(plain));
    EXPECT_EQ(zero.finish(2 * kLong), Ending{}) << zero.err();
    EXPECT_EQ(one.finish(2 * kLong), Ending{}) << one.err();
    expect_two_ranks(text(zero.out(), one.out()));
  }
}

}  // namespace
}  // namespace trireme::launch
