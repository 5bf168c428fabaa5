// How jobs end: by themselves, by a rank that fails, or before they have begun.
#include <sys/resource.h>

#include "run_case.h"

namespace trireme::launch {
namespace {

using RunEndsProcs = RunCase;

TEST_F(RunEndsProcs, WellWhenAllRanksDo) {
  EXPECT_EQ(run({"-n", "3"}, {"variable=RANK"}), 0);
  for (const char* line : {"RANK=0\n", "RANK=1\n", "RANK=2\n"})
    EXPECT_NE(out_.find(line), std::string::npos) << out_;
  EXPECT_EQ(err_, "");
}

TEST_F(RunEndsProcs, WithTheCodeOfTheFailedRank) {
  EXPECT_EQ(run({"-n", "3"}, {"1:error=no luck", "1:exit=3", "hang"}), 3);
  expect_err("[launch] rank 1 of 3 exited with code 3 after ");
  expect_err("; the other ranks are stopped; the end of its stderr:\n    no luck\n");
}

TEST_F(RunEndsProcs, With128AndTheSignalOfTheFailedRank) {
  for (const int signal : {SIGSEGV, SIGKILL, SIGABRT}) {
    EXPECT_EQ(run({"-n", "2"}, {text("0:raise=", signal), "hang"}), 128 + signal);
    expect_err(text("[launch] rank 0 of 2 was ended by ", signal_name(signal)));
  }
}

// Of two that have ended when the keeper looks, a crash is rather the cause than a rank
// that gave up, whoever was first.
TEST_F(RunEndsProcs, NamesACrashBeforeARankThatGaveUp) {
  const auto launched = launch({"-n", "2", "--prefix"}, {"answer=5", "pid", "hang"});
  ASSERT_TRUE(launched->says("pid ", 2) && launched->says("\n", 2));
  const auto pid_of = [&](int rank) {
    const std::string line = text("[rank ", rank, "] pid ");
    return std::stoi(launched->out().substr(launched->out().find(line) + line.size()));
  };
  const pid_t keeper = keeper_of(*launched);
  ::kill(keeper, SIGSTOP);
  ::kill(pid_of(0), SIGTERM);
  ::kill(pid_of(1), SIGSEGV);
  EXPECT_TRUE(within(kLong, [this] { return mark_.found().size() == 2; }));
  ::kill(keeper, SIGCONT);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 139});
  EXPECT_NE(launched->err().find("; at the same moment failed: 0; "), std::string::npos)
      << launched->err();
}

TEST_F(RunEndsProcs, AfterTheGraceWithARankThatIgnoresSigterm) {
  const Stopwatch watch;
  EXPECT_EQ(
      run({"-n", "2", "--grace", "0.5"},
          {"1:ignore=15", "0:sleep=200", "0:exit=3", "hang"}),
      3);
  EXPECT_GE(watch.passed(), 500ms);
  EXPECT_LT(watch.passed(), 20s);
}

TEST_F(RunEndsProcs, BeforeTheGraceWithRanksThatListen) {
  const Stopwatch watch;
  EXPECT_EQ(run({"-n", "2", "--grace", "1000"}, {"0:exit=3", "hang"}), 3);
  EXPECT_LT(watch.passed(), 20s);
}

TEST_F(RunEndsProcs, TogetherWithTheChildrenOfItsRanks) {
  EXPECT_EQ(run({"-n", "2"}, {"child", "daemon"}), 0);
  expect_err("[launch] 4 processes that the ranks had left behind were ended\n");
  EXPECT_EQ(
      run({"-n", "2", "--grace", "0.1"}, {"child", "daemon", "1:exit=3", "hang"}), 3);
}

TEST_F(RunEndsProcs, WellAfterTwoRestarts) {
  EXPECT_EQ(
      run({"-n", "2", "--max-restarts", "3", "--tee", "1", "--log-dir", folder_.path()},
          {"variable=TORCHELASTIC_RESTART_COUNT",
           "variable=TORCHELASTIC_MAX_RESTARTS",
           "1:fail_before=2",
           "0:fail_before=2"}),
      0);
  expect_err("; all ranks are started again (restart 1 of 3)");
  expect_err("; all ranks are started again (restart 2 of 3)");
  EXPECT_EQ(err_.find("(restart 3"), std::string::npos);
  std::vector<std::filesystem::path> runs(
      std::filesystem::directory_iterator(folder_.path()), {});
  ASSERT_EQ(runs.size(), 1u);
  for (const int attempt : {0, 1, 2})
    EXPECT_TRUE(std::filesystem::is_directory(runs[0] / text("attempt_", attempt)));
  EXPECT_FALSE(std::filesystem::exists(runs[0] / "attempt_3"));
  EXPECT_EQ(
      read_text_file(runs[0] / "attempt_2" / "1" / "stdout.log"),
      "TORCHELASTIC_RESTART_COUNT=2\nTORCHELASTIC_MAX_RESTARTS=3\n");
}

TEST_F(RunEndsProcs, BadlyWhenNoRestartHelps) {
  EXPECT_EQ(
      run({"-n", "2", "--max_restarts=1"}, {"0:error=again", "0:exit=3", "hang"}), 3);
  EXPECT_EQ(Launched::count(err_, "rank 0 of 2 exited with code 3"), 2) << err_;
}

TEST_F(RunEndsProcs, ARestartWaitsForTheLastOfTheOldRanks) {
  // Rank 1 of the first attempt, and its child, must be gone when the second begins.
  const std::string file = folder_.path() / "file";
  EXPECT_EQ(
      run({"-n", "2", "--max-restarts", "1", "--grace", "0.3"},
          {"older",
           "variable=TORCHELASTIC_RESTART_COUNT",
           "1:ignore=15",
           "1:daemon",
           text("1:file=", file),
           "1:hang_before=1",
           text("0:await=", file),
           "0:fail_before=1"}),
      0);
  EXPECT_EQ(Launched::count(out_, "COUNT=1\n"), 2) << out_;
  EXPECT_EQ(Launched::count(out_, "older 0\n"), 4) << out_;
}

TEST_F(RunEndsProcs, BeforeItBeginsWithoutAProgram) {
  const auto plain = folder_.write("plain", "text").string();
  const std::pair<std::string, const char*> cases[] = {
      {"/no/such/program", "no such file"},
      {"no-such-program", "it is not in PATH"},
      {plain, "not executable (chmod +x"},
      {folder_.path(), "a folder"}};
  for (const auto& [program, reason] : cases) {
    Launched launched({TRIREME_PROGRAM, "run", "-n", "2", "--", program});
    EXPECT_EQ(launched.finish(), Ending{.exit_code = 2});
    EXPECT_NE(launched.err().find(reason), std::string::npos) << launched.err();
  }
}

TEST_F(RunEndsProcs, WithAProgramThatTheKernelDoesNotTake) {
  const auto file = folder_.write("program", "no program");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  Launched launched({TRIREME_PROGRAM, "run", "-n", "2", "--", file});
  EXPECT_EQ(launched.finish(), Ending{.exit_code = 127});
  EXPECT_NE(launched.err().find("Exec format error"), std::string::npos)
      << launched.err();
}

TEST_F(RunEndsProcs, BeforeItBeginsWithoutRanks) {
  EXPECT_EQ(run({"-n", "0"}, {}), 2);
  expect_err("trireme: [launch] expected at least one rank, got 0; ");
  EXPECT_EQ(run({"-n", "10000"}, {}), 2);
  expect_err("trireme: [launch] expected at most 2048 ranks on one host, got 10000; ");
}

TEST_F(RunEndsProcs, BeforeItBeginsWithoutAPlaceForLogs) {
  const auto plain = folder_.write("plain", "text");
  for (const std::string& where :
       {(plain / "logs").string(), std::string("/proc/logs")}) {
    EXPECT_EQ(run({"--tee", "3", "--log-dir", where}, {"say=started"}), 2);
    EXPECT_EQ(out_, "");
    expect_err("trireme: [launch] expected to write logs to ");
  }
  EXPECT_EQ(run({"--tee", "3"}, {}, [] { ::setenv("TMPDIR", "/no/such", 1); }), 2);
  expect_err("TMPDIR");
}

TEST_F(RunEndsProcs, WhenTheHostHasNoRoomForAllRanks) {
  // Some ranks have started by then.
  const Stopwatch watch;
  EXPECT_EQ(
      run({"-n", "30", "--prefix"},
          {"ignore=15", "daemon", "hang"},
          [] {
            const rlimit few{.rlim_cur = 40, .rlim_max = 40};
            ::setrlimit(RLIMIT_NOFILE, &few);
          }),
      1);
  expect_err("trireme: [launch] expected ");
  expect_err("Too many open files");
  EXPECT_LT(watch.passed(), 20s);
}

TEST_F(RunEndsProcs, AsEverForAParentThatIgnoresItsChildren) {
  EXPECT_EQ(run({"-n", "2"}, {"1:exit=3"}, [] { ::signal(SIGCHLD, SIG_IGN); }), 3);
}

TEST_F(RunEndsProcs, AsEverWithClosedStandardFiles) {
  for (const int first : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    for (const int last : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      const auto close = [=] {
        for (int fd = first; fd <= last; ++fd)
          ::close(fd);
      };
      EXPECT_EQ(
          run({"-n", "2", "--prefix"},
              {"say=hello", "error=oh", "1:exit=3", "hang"},
              close),
          3)
          << first << " to " << last;
    }
}

TEST_F(RunEndsProcs, ApartFromAnotherJobOnTheHost) {
  const auto one = launch({"-n", "2"}, {"variable=TORCHELASTIC_RUN_ID", "hang"});
  ASSERT_TRUE(one->says("RUN_ID=", 2));
  EXPECT_EQ(
      Launched(command({"-n", "2"}, {"1:exit=3", "hang"})).finish(),
      Ending{.exit_code = 3});
  Launched other(command({"-n", "2"}, {"variable=TORCHELASTIC_RUN_ID"}));
  EXPECT_EQ(other.finish(), Ending{});
  EXPECT_NE(one->out(), other.out()) << "each has a run id of its own";
  EXPECT_EQ(mark_.found().size(), 4u) << "the first goes on: a launcher, a keeper, two";
  one->kill(SIGTERM);
  EXPECT_EQ(one->finish(), Ending{.exit_code = 143});
}

TEST_F(RunEndsProcs, InsideAnotherJobToo) {
  const Words inner = command({"-n", "2"}, {"say=ready", "hang"});
  Words outer = {TRIREME_PROGRAM, "run", "-n", "2", "--"};
  outer.insert(outer.end(), inner.begin(), inner.end());
  Launched launched(outer);
  ASSERT_TRUE(launched.says("ready\n", 4));
  launched.kill(SIGKILL);
  EXPECT_TRUE(mark_.gone_within(10s));
}

}  // namespace
}  // namespace trireme::launch
