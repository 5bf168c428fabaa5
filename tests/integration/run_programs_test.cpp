// `trireme run` with several programs as one job: each option beside them.
#include <map>
#include <set>
#include <sstream>

#include "run_case.h"
#include "trireme/core/machine.h"

namespace trireme::launch {
namespace {

/// Three trainers and a server; both are rank_program.
class RunProgramsProcs : public RunCase {
 protected:
  Words both(const Words& options, const Words& trainer, const Words& server) const {
    Words all = options;
    all.insert(all.begin(), {TRIREME_PROGRAM, "run"});
    add_part(all, {"-n", "3", "--role", "trainer"}, trainer);
    all.emplace_back(":");
    add_part(all, {"--role", "server"}, server);
    return all;
  }

  /// Runs both to their end; what they have printed is in out_ and err_.
  int run_both(
      const Words& options,
      const Words& trainer,
      const Words& server,
      const std::function<void()>& prepare = {}) {
    Launched launched(both(options, trainer, server), prepare);
    const Ending ending = launched.finish();
    EXPECT_EQ(ending.signal, 0);
    out_ = launched.out();
    err_ = launched.err();
    EXPECT_TRUE(mark_.found().empty()) << "a process has outlived the launcher";
    return ending.exit_code;
  }

  int printed(const std::string& part) const { return Launched::count(out_, part); }

  std::map<std::string, std::string> log_files() const {
    std::map<std::string, std::string> files;
    for (const auto& run : std::filesystem::directory_iterator(folder_.path()))
      for (const auto& entry : std::filesystem::recursive_directory_iterator(run))
        if (entry.is_regular_file())
          files[entry.path().lexically_relative(run.path())] =
              read_text_file(entry.path()).value_or("");
    return files;
  }

 private:
  void add_part(Words& all, const Words& options, const Words& steps) const {
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", RANK_PROGRAM, mark_.word()});
    all.insert(all.end(), steps.begin(), steps.end());
  }
};

using Files = std::map<std::string, std::string>;

TEST_F(RunProgramsProcs, AreOneWorldOfSeveralRoles) {
  const Words tell = {
      "variable=RANK",
      "variable=LOCAL_RANK",
      "variable=WORLD_SIZE",
      "variable=LOCAL_WORLD_SIZE",
      "variable=ROLE_NAME",
      "variable=ROLE_RANK",
      "variable=ROLE_WORLD_SIZE"};
  EXPECT_EQ(run_both({"--prefix"}, tell, tell), 0);
  for (const int rank : {0, 1, 2, 3}) {
    const bool trains = rank < 3;
    const std::string prefix =
        text("[rank ", rank, " ", trains ? "trainer" : "server", "] ");
    for (const std::string& line :
         {text("RANK=", rank),
          text("LOCAL_RANK=", rank),
          text("WORLD_SIZE=4"),
          text("LOCAL_WORLD_SIZE=4"),
          text("ROLE_NAME=", trains ? "trainer" : "server"),
          text("ROLE_RANK=", trains ? rank : 0),
          text("ROLE_WORLD_SIZE=", trains ? 3 : 1)})
      EXPECT_EQ(printed(prefix + line + "\n"), 1) << prefix << line << " in\n" << out_;
  }
}

TEST_F(RunProgramsProcs, AreCalledAsTheirFiles) {
  Launched launched(
      {TRIREME_PROGRAM,
       "run",
       "sh",
       "-c",
       "echo $ROLE_NAME $1 $2",
       "x",
       "::",
       ":::",
       ":",
       RANK_PROGRAM,
       mark_.word(),
       "variable=ROLE_NAME"});
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  EXPECT_TRUE(launched.says("sh : ::\n")) << launched.out();
  EXPECT_TRUE(launched.says("ROLE_NAME=rank_program\n")) << launched.out();
}

TEST_F(RunProgramsProcs, OneFailureIsReportedOnceWithItsRole) {
  EXPECT_EQ(run_both({}, {"hang"}, {"error=no luck", "raise=9"}), 137);
  EXPECT_TRUE(
      err_.starts_with("no luck\n[launch] rank 3 (server 0) of 4 was ended by "
                       "SIGKILL after "))
      << err_;
  EXPECT_TRUE(err_.ends_with(
      " s; the other ranks are stopped; the end of its stderr:\n    no luck\n"))
      << err_;
  EXPECT_EQ(Launched::count(err_, "[launch] "), 1) << err_;
}

TEST_F(RunProgramsProcs, TheReportQuotesOthersByTheirRoles) {
  EXPECT_EQ(
      run_both(
          {}, {"1:exit=3", "hang"}, {"sleep=100", "error=trainer is gone", "exit=1"}),
      3);
  expect_err("[launch] rank 1 (trainer 1) of 4 exited with code 3 after ");
  expect_err(
      "; it wrote nothing to stderr, but rank 3 (server 0) then did:\n    trainer is "
      "gone\n");
}

TEST_F(RunProgramsProcs, AllOfThemStartAgain) {
  EXPECT_EQ(
      run_both(
          {"--max-restarts", "1"},
          {"variable=TORCHELASTIC_RESTART_COUNT", "hang_before=1"},
          {"variable=ROLE_NAME", "sleep=300", "fail_before=1"}),
      0);
  for (const char* line :
       {"TORCHELASTIC_RESTART_COUNT=0\n", "TORCHELASTIC_RESTART_COUNT=1\n"})
    EXPECT_EQ(printed(line), 3) << out_;
  EXPECT_EQ(printed("ROLE_NAME=server\n"), 2) << out_;
  expect_err("[launch] rank 3 (server 0) of 4 exited with code 3 after ");
  expect_err("; all ranks are started again (restart 1 of 1)");
}

TEST_F(RunProgramsProcs, LogsAreByRank) {
  EXPECT_EQ(
      run_both(
          {"--redirects", "0:1,3:3", "--tee", "1:1", "--log-dir", folder_.path()},
          {"variable=ROLE_RANK"},
          {"say=served", "error=hm"}),
      0);
  EXPECT_EQ(
      log_files(),
      (Files{
          {"attempt_0/0/stdout.log", "ROLE_RANK=0\n"},
          {"attempt_0/1/stdout.log", "ROLE_RANK=1\n"},
          {"attempt_0/3/stdout.log", "served\n"},
          {"attempt_0/3/stderr.log", "hm\n"}}));
  EXPECT_EQ(
      out_.size(), std::string("[rank 1 trainer] ROLE_RANK=1\nROLE_RANK=2\n").size());
  EXPECT_EQ(printed("[rank 1 trainer] ROLE_RANK=1\n"), 1) << out_;
  EXPECT_EQ(err_, "");
}

TEST_F(RunProgramsProcs, TheReportReadsTheLogOfTheRankThatFailed) {
  EXPECT_EQ(
      run_both(
          {"--redirects", "3", "--log-dir", folder_.path()},
          {"error=fine", "hang"},
          {"sleep=200", "error=the reason", "exit=4"}),
      4);
  expect_err("[launch] rank 3 (server 0) of 4 exited with code 4 after ");
  expect_err("the end of its stderr:\n    the reason\n");
}

TEST_F(RunProgramsProcs, SignalsGoToAll) {
  Launched launched(
      both({}, {"note=10", "say=up", "hang"}, {"note=10", "say=up", "hang"}));
  ASSERT_TRUE(launched.says("up\n", 4)) << launched.err();
  launched.kill(SIGUSR1);
  EXPECT_TRUE(launched.says("got 10\n", 4));
  launched.kill(SIGTERM);
  EXPECT_EQ(launched.finish(), Ending{.exit_code = 143});
}

TEST_F(RunProgramsProcs, AllMayAnswerThatTheyCanGoOn) {
  Launched launched(
      both({}, {"answer=75", "say=up", "hang"}, {"answer=75", "say=up", "hang"}));
  ASSERT_TRUE(launched.says("up\n", 4)) << launched.err();
  launched.kill(SIGTERM);
  EXPECT_EQ(launched.finish(), Ending{.exit_code = 75});
}

TEST_F(RunProgramsProcs, NoneOutlivesTheLauncher) {
  for (const bool keeper : {false, true}) {
    Launched launched(both({}, {"say=up", "hang"}, {"say=up", "hang"}));
    ASSERT_TRUE(launched.says("up\n", 4)) << launched.err();
    ::kill(keeper ? keeper_of(launched) : launched.pid(), SIGKILL);
    launched.ending();
    EXPECT_TRUE(mark_.gone_within(10s));
  }
}

TEST_F(RunProgramsProcs, InputIsRankZeros) {
  Launched launched(both({}, {"input"}, {"input", "say=done"}));
  launched.write("words\n");
  launched.end_input();
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  EXPECT_EQ(Launched::count(launched.out(), "words\n"), 1) << launched.out();
}

TEST_F(RunProgramsProcs, CoresAndThreadsAreSharedByAll) {
  const int cores = available_cores();
  Launched launched(
      {TRIREME_PROGRAM,
       "run",
       "--prefix",
       "-n",
       text(std::max(1, cores - 1)),
       "--role",
       "a",
       "--",
       RANK_PROGRAM,
       mark_.word(),
       "cpus",
       "variable=OMP_NUM_THREADS",
       ":",
       "--role",
       "b",
       "--",
       RANK_PROGRAM,
       mark_.word(),
       "cpus",
       "variable=OMP_NUM_THREADS"},
      [] { ::unsetenv("OMP_NUM_THREADS"); });
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  EXPECT_EQ(Launched::count(launched.out(), "OMP_NUM_THREADS=1\n"), std::max(2, cores))
      << launched.out();
  if (cores < 2)
    return;  // nothing to give to each
  std::istringstream lines(launched.out());
  std::set<std::string> cpus;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = std::min(line.find("cpus"), line.size());
    EXPECT_TRUE(at == line.size() || cpus.insert(line.substr(at)).second)
        << line << " came twice";
  }
  EXPECT_EQ(cpus.size(), static_cast<size_t>(cores));
}

TEST_F(RunProgramsProcs, RanksMayOutnumberTheCores) {
  Launched launched(
      {TRIREME_PROGRAM,
       "run",
       "-n",
       text(available_cores() + 3),
       "--",
       RANK_PROGRAM,
       mark_.word(),
       "variable=OMP_NUM_THREADS",
       ":",
       "-n",
       "2",
       "true"},
      [] { ::unsetenv("OMP_NUM_THREADS"); });
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  EXPECT_EQ(
      Launched::count(launched.out(), "OMP_NUM_THREADS=1\n"), available_cores() + 3);
}

TEST_F(RunProgramsProcs, AnAutoNumberIsOfEachPart) {
  Launched launched(
      {TRIREME_PROGRAM,
       "run",
       "-n",
       "cpu",
       "sh",
       "-c",
       "echo size $WORLD_SIZE",
       ":",
       "-n",
       "cpu",
       "true"});
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  EXPECT_EQ(
      Launched::count(launched.out(), text("size ", 2 * available_cores(), "\n")),
      available_cores())
      << launched.out();
}

// Nothing is started where one part cannot be.
TEST_F(RunProgramsProcs, ARefusalComesBeforeAnythingStarts) {
  const std::string begun = folder_.path() / "begun";
  const std::pair<Words, std::string> cases[] = {
      {{":", "/no/such/server"},
       "a program that can be run, got \"/no/such/server\": no"},
      {{":", "no-such-server"},
       "a program that can be run, got \"no-such-server\": it"},
      {{":", "-n", "0", "true"}, "at least one rank of true, got 0; "},
      {{":", "-n", "-1", "true"}, "at least one rank of true, got -1; "},
      {{":", "-n", "2048", "true"}, "at most 2048 ranks on one host, got 2049; "},
      {{":", "-n", "2147483647", "true"},
       "at most 2048 ranks on one host, got 21474836"},
      {{":", "-n", "x", "true"}, "the number of ranks (-n) to be a whole number"},
      {{":", RANK_PROGRAM},
       "got two called \"rank_program\"; name one of them with --role"},
      {{":", "--tee", "3", "true"},
       "got \"--tee\", which is for the whole job; put it "},
      {{":"}, "expected a program after \":\", got none; "},
      {{":", "true", ":", "--role", "true", "false"}, "got two called \"true\""}};
  for (const auto& [more, reason] : cases) {
    Words all = {
        TRIREME_PROGRAM, "run", "--", RANK_PROGRAM, mark_.word(), "file=" + begun};
    all.insert(all.end(), more.begin(), more.end());
    Launched launched(all);
    EXPECT_EQ(launched.finish(), Ending{.exit_code = 2}) << reason;
    EXPECT_TRUE(launched.complains(reason)) << reason << " in\n" << launched.err();
    EXPECT_EQ(Launched::count(launched.err(), "\n"), 1) << launched.err();
    EXPECT_FALSE(std::filesystem::exists(begun)) << reason;
  }
}

TEST_F(RunProgramsProcs, RanksOfLogsAreCountedOverAllParts) {
  EXPECT_EQ(run_both({"--tee", "4:1", "--log-dir", folder_.path()}, {}, {}), 2);
  expect_err("redirects and tee for ranks below 4, got one for rank 4");
}

TEST_F(RunProgramsProcs, SeveralHostsTakeOneProgram) {
  for (const Words& options :
       {Words{"--nnodes", "2", "--node-rank", "0"},
        Words{"--nnodes", "1:2"},
        Words{"--hosts", "localhost,other"}}) {
    EXPECT_EQ(run_both(options, {}, {}), 2);
    expect_err(
        "[launch] expected one program for a job of several hosts (--nnodes, --hosts), "
        "got 2, from trainer to server; ");
  }
  EXPECT_EQ(run_both({"--nnodes", "1"}, {}, {}), 0) << err_;
  EXPECT_EQ(run_both({"--hosts", "localhost"}, {}, {}), 0) << err_;
}

TEST_F(RunProgramsProcs, OneProgramMayHaveARole) {
  EXPECT_EQ(
      run({"-n", "2", "--role", "worker", "--prefix"},
          {"variable=ROLE_NAME", "1:exit=3"}),
      3);
  EXPECT_EQ(printed("[rank 1] ROLE_NAME=worker\n"), 1) << out_;
  expect_err("[launch] rank 1 of 2 exited with code 3 after ");
  EXPECT_EQ(run({"--role", "worker", "--nnodes", "2", "--node-rank", "0"}, {}), 2);
  expect_err("[launch] expected no --role for a job of several hosts");
}

// Variables of a job around this one are not its own.
TEST_F(RunProgramsProcs, RolesOfAJobAroundThisOneAreGone) {
  EXPECT_EQ(
      run({"-n", "2"},
          {"variable=ROLE_NAME", "variable=ROLE_WORLD_SIZE"},
          [] {
            ::setenv("ROLE_NAME", "server", 1);
            ::setenv("ROLE_RANK", "7", 1);
            ::setenv("ROLE_WORLD_SIZE", "9", 1);
          }),
      0);
  EXPECT_EQ(printed("ROLE_NAME=default\n"), 2) << out_;
  EXPECT_EQ(printed("ROLE_WORLD_SIZE=2\n"), 2) << out_;
}

}  // namespace
}  // namespace trireme::launch
