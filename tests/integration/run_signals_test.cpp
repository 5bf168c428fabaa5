// Signals to a job, and kill -9 of any part of it.
#include "run_case.h"

namespace trireme::launch {
namespace {

class RunSignalsProcs : public RunCase {
 protected:
  // Waits until all ranks have said that they are ready.
  std::unique_ptr<Launched> ready(
      const Words& options,
      Words steps,
      const std::function<void()>& prepare = {}) const {
    steps.insert(steps.end(), {"say=ready", "hang"});
    Words all = {"-n", "2"};
    all.insert(all.end(), options.begin(), options.end());
    auto launched = launch(all, steps, prepare);
    EXPECT_TRUE(launched->says("ready\n", 2)) << launched->err();
    return launched;
  }

  static char state_of(pid_t pid) {
    const auto stat =
        parse_process_stat(read_text_file(text("/proc/", pid, "/stat")).value_or(""));
    return stat ? stat->state : '?';
  }
  bool all_stopped(bool stopped, size_t but) const {
    size_t others = 0;
    for (const pid_t pid : mark_.found())
      others += (state_of(pid) == 'T') != stopped;
    return others <= but;
  }
};

TEST_F(RunSignalsProcs, StopSignalsEndAllWithTheirCode) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const auto launched = ready({}, {"child"});
    launched->kill(signal);
    EXPECT_EQ(launched->finish(), Ending{.exit_code = 128 + signal});
    EXPECT_TRUE(mark_.found().empty());
  }
}

TEST_F(RunSignalsProcs, TheSecondSigintEndsTheGrace) {
  const auto launched = ready({"--grace", "1000"}, {"note=2", "ignore=15"});
  launched->kill(SIGINT);
  ASSERT_TRUE(launched->says("got 02\n", 2));
  EXPECT_EQ(mark_.found().size(), 4u);
  const Stopwatch watch;
  launched->kill(SIGINT);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 130});
  EXPECT_LT(watch.passed(), 10s);
}

TEST_F(RunSignalsProcs, RanksThatAnswerWith75MakeTheJobResumable) {
  const auto launched = ready({"--max-restarts", "3"}, {"answer=75"});
  launched->kill(SIGTERM);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 75});
}

TEST_F(RunSignalsProcs, RanksThatAUserSignalStopsAreNotStartedAgain) {
  const auto launched = launch(
      {"-n", "2", "--max-restarts", "3"},
      {"answer_user=75", "say=ready", "hang_before=1"});
  ASSERT_TRUE(launched->says("ready\n", 2)) << launched->err();
  launched->kill(SIGUSR1);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 75});
  EXPECT_EQ(Launched::count(launched->out(), "ready\n"), 2) << launched->out();
}

TEST_F(RunSignalsProcs, UserSignalsReachEveryRank) {
  const auto launched = ready({}, {"note=10", "note=12"});
  launched->kill(SIGUSR1);
  EXPECT_TRUE(launched->says("got 10\n", 2));
  launched->kill(SIGUSR2);
  EXPECT_TRUE(launched->says("got 12\n", 2));
  launched->kill(SIGTERM);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 143});
}

TEST_F(RunSignalsProcs, CtrlZStopsAllAndFgGoesOn) {
  const auto launched = ready({}, {"note=18"});
  launched->kill(SIGTSTP);
  EXPECT_TRUE(within(kLong, [this] { return all_stopped(true, 1); }))
      << "all but the keeper";
  EXPECT_EQ(state_of(launched->pid()), 'T') << "so that the shell takes over";
  launched->kill(SIGCONT);
  EXPECT_TRUE(launched->says("got 18\n", 2));
  EXPECT_TRUE(within(kLong, [this] { return all_stopped(false, 0); }));
  launched->kill(SIGTERM);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 143});
}

TEST_F(RunSignalsProcs, RanksThatAreStoppedCanBeEnded) {
  const auto launched = ready({}, {});
  launched->kill(SIGTSTP);
  ASSERT_TRUE(within(kLong, [this] { return all_stopped(true, 1); }));
  launched->kill(SIGKILL);
  EXPECT_TRUE(mark_.gone_within(10s));
}

TEST_F(RunSignalsProcs, UnderNohupAHangupIsNothing) {
  const auto launched = ready({}, {"state"}, [] { ::signal(SIGHUP, SIG_IGN); });
  EXPECT_EQ(Launched::count(launched->out(), "ignored 1,"), 2) << launched->out();
  launched->kill(SIGHUP);
  launched->kill(SIGUSR1);  // comes after it, and ends ranks that have no handler
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 128 + SIGUSR1});
  EXPECT_EQ(launched->err().find("SIGHUP"), std::string::npos) << launched->err();
}

TEST_F(RunSignalsProcs, AKilledLauncherLeavesNothing) {
  const auto launched = ready(
      {"--grace", "1000", "--max-restarts", "9"}, {"ignore=15", "child", "daemon"});
  ASSERT_TRUE(launched->says("child is ready\n", 2));
  EXPECT_GE(mark_.found().size(), 8u);
  launched->kill(SIGKILL);
  EXPECT_TRUE(mark_.gone_within(10s));
}

TEST_F(RunSignalsProcs, AKilledKeeperLeavesNothingAndIsReported) {
  const auto launched = ready({}, {"ignore=15", "child", "daemon"});
  ASSERT_TRUE(launched->says("child is ready\n", 2));
  const Stopwatch watch;
  ::kill(keeper_of(*launched), SIGKILL);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 1});
  EXPECT_LT(watch.passed(), 5s);
  EXPECT_EQ(
      launched->err(),
      "trireme: [launch] expected the outcome of the job, got none: the process that "
      "kept its "
      "ranks was ended by SIGKILL; all ranks have been ended\n");
  EXPECT_TRUE(mark_.found().empty());
}

TEST_F(RunSignalsProcs, TheKeeperIsNotFoundByTheNameOfTheLauncher) {
  const auto launched = ready({}, {});
  EXPECT_EQ(
      read_text_file(text("/proc/", keeper_of(*launched), "/comm")), "rank-keeper\n");
  launched->kill(SIGTERM);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 143});
}

TEST_F(RunSignalsProcs, ACancelledRestartIsTakenBack) {
  // Rank 0 fails only when rank 1 is ready to survive SIGTERM.
  const std::string file = folder_.path() / "file";
  const auto launched = launch(
      {"-n", "2", "--max-restarts", "1", "--grace", "60"},
      {"1:ignore=15",
       text("1:file=", file),
       "1:hang",
       text("0:await=", file),
       "0:exit=3"});
  ASSERT_TRUE(launched->complains("restart 1 of 1"));
  launched->kill(SIGINT);
  ASSERT_TRUE(launched->complains("not started again, because of SIGINT"));
  launched->kill(SIGINT);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 3});
}

TEST_F(RunSignalsProcs, AJobWhoseOutputNobodyReadsEndsWhenAsked) {
  for (const Words& options : {Words{}, Words{"--prefix"}}) {
    Words all = {"-n", "2", "--grace", "0.5"};
    all.insert(all.end(), options.begin(), options.end());
    // More than all pipes and our own buffers hold: the ranks hang in a write.
    const auto launched = launch(all, {"0:flood=100000000", "1:flood_err=100000000"});
    ASSERT_TRUE(within(kLong, [this] { return mark_.found().size() == 4; }));
    std::this_thread::sleep_for(300ms);
    const Stopwatch watch;
    launched->kill(SIGTERM);
    EXPECT_EQ(launched->ending(), Ending{.exit_code = 143});
    EXPECT_LT(watch.passed(), 10s);
    EXPECT_TRUE(mark_.gone_within(10s));
  }
}

TEST_F(RunSignalsProcs, AFailedJobWhoseOutputNobodyReadsEndsWhenAsked) {
  const std::string file = folder_.path() / "file";
  const auto launched =
      launch({"-n", "1"}, {"flood_err=1000000", text("file=", file), "exit=3"});
  ASSERT_TRUE(within(kLong, [&] { return std::filesystem::exists(file); }));
  const pid_t keeper = keeper_of(*launched);
  const std::string children = text("/proc/", keeper, "/task/", keeper, "/children");
  ASSERT_TRUE(within(kLong, [&] {
    return read_text_file(children).value_or("").empty();
  })) << "the rank is gone; the keeper waits for a reader";
  launched->kill(SIGTERM);
  EXPECT_EQ(launched->ending(), Ending{.exit_code = 3});
}

}  // namespace
}  // namespace trireme::launch
