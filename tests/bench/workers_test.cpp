#include "trireme/bench/workers.h"

#include <cerrno>
#include <set>
#include <signal.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/launch/placement.h"
#include "trireme/testing/message.h"

namespace trireme::bench {
namespace {

using testing::message_of;
using namespace std::chrono_literals;

const std::string kReady = "echo '{\"rows\":[]}'; ";
const std::string kServe =
    kReady + "while read -r line; do echo '{\"rows\":[[1,2]]}'; done";

WorkerStart shell(const std::string& script) {
  return {.command = {"sh", "-c", script}, .variables = {}};
}

std::string error_of_asking(
    const std::string& script, std::chrono::milliseconds limit = 20s) {
  WorkerTeam team("test", {shell(kServe), shell(kReady + script)});
  return message_of<Error>([&] { team.ask("{}", limit); });
}

void expect_within(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(RankStarts, SetWhatTorchrunWouldSet) {
  const auto starts = rank_starts({"program"}, 2, {{"OMP_NUM_THREADS", "1"}});
  ASSERT_EQ(starts.size(), 2u);
  const auto& variables = starts[1].variables;
  EXPECT_EQ(variables.at("RANK"), "1");
  EXPECT_EQ(variables.at("LOCAL_RANK"), "1");
  EXPECT_EQ(variables.at("WORLD_SIZE"), "2");
  EXPECT_EQ(variables.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(variables.at("MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "1");
  EXPECT_GT(std::stoi(variables.at("MASTER_PORT")), 0);
  EXPECT_EQ(variables.at("MASTER_PORT"), starts[0].variables.at("MASTER_PORT"));
}

TEST(RankStarts, AreAWorldOfTheirOwnEachTime) {
  std::set<std::string> ids;
  for (int i = 0; i < 3; ++i)
    ids.insert(rank_starts({"program"}, 1, {})[0].variables.at("TORCHELASTIC_RUN_ID"));
  EXPECT_EQ(ids.size(), 3u);
}

TEST(RankStarts, ArePinnedAsTheLauncherPins) {
  const auto cpus = launch::plan_cores(launch::read_cpus(allowed_cpus()), 1);
  ASSERT_EQ(cpus.size(), 1u);
  const auto alone = pinned(rank_starts({"program"}, 1, {}));
  EXPECT_EQ(alone[0].cpus, cpus[0]);
  const auto many = static_cast<int>(allowed_cpus().size()) + 1;
  for (const WorkerStart& start : pinned(rank_starts({"program"}, many, {})))
    EXPECT_TRUE(start.cpus.empty());
}

TEST(WorkerTeamProcs, PinsItsWorkers) {
  const std::string list =
      "$(sed -n 's/^Cpus_allowed_list:\\t\\([0-9]*\\)$/\\1/p' /proc/self/status)";
  WorkerStart start =
      shell(kReady + "read -r line; echo \"{\\\"rows\\\":[[" + list + "]]}\"");
  start.cpus = {allowed_cpus().back()};
  WorkerTeam team("test", {start});
  EXPECT_EQ(team.ask("{}", 20s), (Rows{{static_cast<double>(start.cpus[0])}}));
}

TEST(WorkerTeamProcs, AnswersInTheOrderOfTheWorkers) {
  const auto numbered = [](const char* number) {
    return shell(
        kReady + "while read -r line; do echo \"{\\\"rows\\\":[[" + number +
        "]]}\"; done");
  };
  WorkerTeam team("test", {numbered("1"), numbered("2"), numbered("3")});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(team.ask("{}", 20s), (Rows{{1}, {2}, {3}}));
}

TEST(WorkerTeamProcs, PassesTheLineAndTheVariables) {
  WorkerStart start =
      shell(kReady + "read -r line; echo \"{\\\"rows\\\":[[$line,$MORE]]}\"");
  start.variables["MORE"] = "5";
  WorkerTeam team("test", {start});
  EXPECT_EQ(team.ask("4", 20s), (Rows{{4, 5}}));
}

TEST(WorkerTeamProcs, SaysHowAWorkerEnded) {
  expect_within(error_of_asking("read -r line; exit 3"), "worker 1");
  expect_within(error_of_asking("read -r line; exit 3"), "exit code 3");
  expect_within(error_of_asking("read -r line; kill -9 $$"), "signal 9");
}

TEST(WorkerTeamProcs, ShowsTheMessagesOfAFailedWorker) {
  expect_within(
      error_of_asking("read -r line; echo the reason >&2; exit 1"), "the reason");
}

TEST(WorkerTeamProcs, PassesOnAWorkersError) {
  expect_within(
      error_of_asking("read -r line; echo '{\"error\":\"no luck\"}'; read -r line"),
      "no luck");
}

TEST(WorkerTeamProcs, DoesNotTrustAnAnswer) {
  expect_within(error_of_asking("read -r line; echo hello; read -r line"), "hello");
}

TEST(WorkerTeamProcs, DoesNotWaitForEver) {
  expect_within(error_of_asking("exec sleep 100", 100ms), "within 100 ms");
}

TEST(WorkerTeamProcs, DoesNotStartWithAWorkerThatIsNeverReady) {
  expect_within(
      message_of<Error>([] {
        WorkerTeam team("test", {shell("exec sleep 100")}, {.start_limit = 100ms});
      }),
      "within 100 ms");
}

TEST(WorkerTeamProcs, SaysWhichProgramIsMissing) {
  const std::string error = message_of<Error>([] {
    WorkerTeam team("test", {{.command = {"/nonexistent/program"}, .variables = {}}});
  });
  expect_within(error, "cannot start /nonexistent/program: No such file");
  expect_within(error, "exit code 127");
}

TEST(WorkerTeamProcs, LeavesNoProcessBehind) {
  pid_t willing = 0;
  pid_t stuck = 0;
  {
    WorkerTeam team(
        "test",
        {shell(kServe), shell(kReady + "exec sleep 100")},
        {.stop_limit = 50ms});
    willing = team.pid(0);
    stuck = team.pid(1);
    EXPECT_EQ(kill(willing, 0), 0);
  }
  for (const pid_t pid : {willing, stuck}) {
    EXPECT_EQ(kill(pid, 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
}

}  // namespace
}  // namespace trireme::bench
