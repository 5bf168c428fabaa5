// A keeper by itself: the test is its launcher.
#include "trireme/launch/keeper.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "launched.h"
#include "trireme/launch/await.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

class KeeperProcs : public ::testing::Test {
 protected:
  ~KeeperProcs() override {
    if (link_.keeper > 0 && !waited_) {
      ::kill(link_.keeper, SIGKILL);
      ::waitpid(link_.keeper, nullptr, 0);
    }
    EXPECT_TRUE(mark_.gone_within(5s)) << "something was left behind";
  }

  void start(Options options, const std::vector<std::string>& steps) {
    plan_.options = std::move(options);
    plan_.options.run_id = "run";
    plan_.run_folder = folder_.path() / "logs";
    RankBody body{.program = RANK_PROGRAM, .arguments = {RANK_PROGRAM, mark_.word()}};
    body.arguments.insert(body.arguments.end(), steps.begin(), steps.end());
    if (plan_.roles.empty())
      plan_.roles = {{.name = "default", .ranks = plan_.options.ranks}};
    plan_.bodies.assign(plan_.roles.size(), body);
    plan_.state = ProcessState::now();
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    link_.socket = ends[0];
    link_.keeper = ::fork();
    if (link_.keeper == 0) {
      ::close(ends[0]);
      keep(ends[1]);
    }
    ::close(ends[1]);
  }

  // Two programs with the same steps.
  void start_two(Options options, const std::vector<std::string>& steps) {
    plan_.roles = {{.name = "trainer", .ranks = 2}, {.name = "server", .ranks = 1}};
    options.ranks = ranks_in_all(plan_.roles);
    start(std::move(options), steps);
  }

  Outcome outcome() {
    waited_ = true;
    return await_outcome(link_);
  }

  void send(int signal) const {
    EXPECT_EQ(::send(link_.socket, &signal, sizeof signal, 0), ssize_t{sizeof signal});
  }
  bool printed(const std::string& part, int times = 1) const {
    return within(kLong, [&] { return Launched::count(out(), part) >= times; });
  }
  std::string out() const {
    return read_text_file(folder_.path() / "out").value_or("");
  }
  std::string err() const {
    return read_text_file(folder_.path() / "err").value_or("");
  }

  const testing::ScratchFolder folder_;
  Mark mark_;
  KeeperLink link_;

 private:
  [[noreturn]] void keep(int socket) {
    ::setsid();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT})
      ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    for (const auto& [name, fd] : {std::pair{"out", 1}, std::pair{"err", 2}})
      ::dup2(
          ::open(
              (folder_.path() / name).c_str(),
              O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC,
              0600),
          fd);
    try {
      Keeper keeper(plan_, socket);
      send_outcome(socket, keeper.run());
    } catch (const std::exception& error) {
      send_error(socket, error.what());
    }
    ::_exit(0);
  }

  KeeperPlan plan_;
  bool waited_ = false;
};

TEST_F(KeeperProcs, RunsAllRanksToTheirEnd) {
  start({.ranks = 3}, {"variable=RANK", "error=done"});
  const Outcome got = outcome();
  EXPECT_EQ(got.exit_code, 0);
  EXPECT_FALSE(got.failure);
  for (const char* line : {"RANK=0\n", "RANK=1\n", "RANK=2\n"})
    EXPECT_NE(out().find(line), std::string::npos) << out();
  EXPECT_EQ(err(), "done\ndone\ndone\n");
}

TEST_F(KeeperProcs, ReportsTheFirstFailureWithTheEndOfItsStderr) {
  start({.ranks = 2}, {"1:error=the reason", "1:exit=3", "hang"});
  const Outcome got = outcome();
  EXPECT_EQ(got.exit_code, 3);
  ASSERT_TRUE(got.failure);
  EXPECT_EQ(got.failure->rank, 1);
  EXPECT_EQ(got.failure->ending, Ending{.exit_code = 3});
  EXPECT_EQ(got.failure->last_lines, "the reason");
  EXPECT_NE(
      err().find("[launch] rank 1 of 2 exited with code 3 after "), std::string::npos)
      << err();
  EXPECT_NE(
      err().find(
          " s; the other ranks are stopped; the end of its stderr:\n    the reason\n"),
      std::string::npos)
      << err();
}

TEST_F(KeeperProcs, NamesTheRolesWhereThereAreSeveral) {
  start_two(
      {.prefix = true},
      {"variable=ROLE_RANK", "2:error=the reason", "2:exit=3", "hang"});
  const Outcome got = outcome();
  EXPECT_EQ(got.exit_code, 3);
  ASSERT_TRUE(got.failure);
  EXPECT_EQ(got.failure->rank, 2);
  for (const char* line :
       {"[rank 0 trainer] ROLE_RANK=0\n",
        "[rank 1 trainer] ROLE_RANK=1\n",
        "[rank 2 server] ROLE_RANK=0\n"})
    EXPECT_NE(out().find(line), std::string::npos) << out();
  EXPECT_NE(err().find("[rank 2 server] the reason\n"), std::string::npos) << err();
  EXPECT_NE(
      err().find("[launch] rank 2 (server 0) of 3 exited with code 3 after "),
      std::string::npos)
      << err();
}

TEST_F(KeeperProcs, NamesTheRolesOfAllThatFailAtOneMoment) {
  const std::string go = folder_.path() / "go";
  // The keeper is stopped while they end, so that it finds them all at once.
  start_two({}, {"say=up", "await=" + go, "exit=3"});
  ASSERT_TRUE(printed("up\n", 3));
  ::kill(link_.keeper, SIGSTOP);
  std::ofstream(go) << "";
  EXPECT_TRUE(mark_.gone_within(kLong));
  ::kill(link_.keeper, SIGCONT);
  EXPECT_EQ(outcome().exit_code, 3);
  EXPECT_NE(err().find("at the same moment failed: "), std::string::npos) << err();
  for (const char* name : {"0 (trainer 0)", "1 (trainer 1)", "2 (server 0)"})
    EXPECT_NE(err().find(name), std::string::npos) << err();
}

// Of a rank that was killed only the others can tell, and they get a moment to do so.
TEST_F(KeeperProcs, QuotesTheOthersWhereTheFailedRankSaidNothing) {
  start(
      {.ranks = 3},
      {"1:raise=9", "0:sleep=100", "0:error=rank 1 is dead", "0:exit=1", "hang"});
  EXPECT_EQ(outcome().exit_code, 137);
  EXPECT_NE(
      err().find(
          "; the other ranks are stopped; it wrote nothing to stderr, but rank 0 then "
          "did:\n    rank 1 is dead\n"),
      std::string::npos)
      << err();
  EXPECT_EQ(err().find("at the same moment"), std::string::npos) << err();
}

TEST_F(KeeperProcs, QuotesTheOthersBeforeARestart) {
  start(
      {.ranks = 2, .max_restarts = 1},
      {"1:raise=9", "0:sleep=50", "0:error=it is gone", "0:exit=1"});
  EXPECT_EQ(outcome().exit_code, 137);
  EXPECT_EQ(Launched::count(err(), "but rank 0 then did:\n    it is gone\n"), 2)
      << err();
}

// More ranks have printed something than the relay looks at in one turn, and the last
// one has ended when the keeper comes to look.
TEST_F(KeeperProcs, ReportsWhatIsStillInThePipeOfAnEndedRank) {
  const std::string file = folder_.path() / "go";
  start(
      {.ranks = 70},
      {"say=ready",
       text("await=", file),
       "69:sleep=300",
       "error=the reason",
       "69:exit=3"});
  ASSERT_TRUE(printed("ready\n", 70));
  ::kill(link_.keeper, SIGSTOP);
  folder_.write("go", "");
  EXPECT_TRUE(within(kLong, [this] { return mark_.found().empty(); }));
  ::kill(link_.keeper, SIGCONT);
  EXPECT_EQ(outcome().failure.value_or(Failure{}).last_lines, "the reason");
}

TEST_F(KeeperProcs, ReportsARankThatSaidNothing) {
  start({.ranks = 1}, {"exit=9"});
  EXPECT_EQ(outcome().failure->last_lines, "");
  EXPECT_NE(err().find("; it wrote nothing to stderr\n"), std::string::npos) << err();
}

TEST_F(KeeperProcs, QuotesStderrThatGoesToAFile) {
  start(
      {.ranks = 1, .redirects = {.all = {.err = true}}}, {"error=in a file", "exit=9"});
  EXPECT_EQ(outcome().failure->last_lines, "in a file");
  EXPECT_NE(err().find("    in a file\n"), std::string::npos) << err();
}

TEST_F(KeeperProcs, EndsAllWhenItsLauncherIsGone) {
  start(
      {.ranks = 2, .max_restarts = 5, .grace = std::chrono::hours(1)},
      {"ignore=15", "child", "daemon", "say=begun", "hang"});
  ASSERT_TRUE(printed("child is ready\n", 2));
  ASSERT_TRUE(printed("begun\n", 2));
  EXPECT_GE(mark_.found().size(), 6u);
  ::close(link_.socket);
  EXPECT_TRUE(mark_.gone_within(5s));
  EXPECT_TRUE(
      within(5s, [this] { return ::waitpid(link_.keeper, nullptr, WNOHANG) != 0; }));
  link_.keeper = -1;
}

TEST_F(KeeperProcs, PassesOnWhatIsNoWishToStop) {
  start({.ranks = 2}, {"note=10", "say=ready", "sleep=60000", "say=woken"});
  ASSERT_TRUE(printed("ready\n", 2));
  send(SIGUSR1);
  ASSERT_TRUE(printed("got 10\n", 2));
  EXPECT_EQ(outcome().exit_code, 0);
}

// A program that saves and stops at SIGUSR1 was asked to: it has not failed.
TEST_F(KeeperProcs, DoesNotStartAgainWhatAPassedSignalHasStopped) {
  start(
      {.ranks = 2, .max_restarts = 3},
      {"answer_user=75",
       "variable=TORCHELASTIC_RESTART_COUNT",
       "say=ready",
       "hang_before=1"});
  ASSERT_TRUE(printed("ready\n", 2));
  send(SIGUSR1);
  const Outcome got = outcome();
  EXPECT_EQ(got.exit_code, 75);
  EXPECT_EQ(got.restarts, 0);
  EXPECT_FALSE(got.failure);
  EXPECT_EQ(out().find("COUNT=1"), std::string::npos) << out();
  EXPECT_EQ(err(), "");
}

TEST_F(KeeperProcs, StartsAgainWhatStopsWithoutASignal) {
  start({.ranks = 2, .max_restarts = 1}, {"0:exit=75", "hang"});
  const Outcome got = outcome();
  EXPECT_EQ(got.exit_code, 75);
  EXPECT_EQ(got.restarts, 1);
  EXPECT_NE(err().find("restart 1 of 1"), std::string::npos) << err();
}

TEST_F(KeeperProcs, AFailureBesideAStopIsReportedAndNotStartedAgain) {
  start(
      {.ranks = 2, .max_restarts = 3},
      {"0:answer_user=75",
       "1:note=10",
       "say=ready",
       "0:hang",
       "1:sleep=60000",
       "1:error=it is gone",
       "1:exit=3"});
  ASSERT_TRUE(printed("ready\n", 2));
  send(SIGUSR1);
  const Outcome got = outcome();
  EXPECT_EQ(got.exit_code, 3);
  EXPECT_EQ(got.restarts, 0);
  EXPECT_NE(err().find("    it is gone\n"), std::string::npos) << err();
  EXPECT_EQ(err().find("started again"), std::string::npos) << err();
}

TEST_F(KeeperProcs, StopsAtAWishFromTheLauncher) {
  start({.ranks = 2}, {"say=ready", "hang"});
  ASSERT_TRUE(printed("ready\n", 2));
  send(SIGINT);
  EXPECT_EQ(outcome().exit_code, 130);
}

TEST_F(KeeperProcs, StopsAtASignalToItself) {
  start({.ranks = 2}, {"say=ready", "hang"});
  ASSERT_TRUE(printed("ready\n", 2));
  ::kill(link_.keeper, SIGTERM);
  EXPECT_EQ(outcome().exit_code, 143);
}

TEST_F(KeeperProcs, StopsARankThatHasGoneToAnotherGroup) {
  start(
      {.ranks = 1, .grace = kLong}, {"other_group", "answer=75", "say=ready", "hang"});
  ASSERT_TRUE(printed("ready\n"));
  send(SIGTERM);
  EXPECT_EQ(outcome().exit_code, 75);
}

TEST_F(KeeperProcs, WakesRanksThatAreSuspendedBeforeTheyMustStop) {
  start({.ranks = 1, .grace = kLong}, {"answer=75", "say=ready", "hang"});
  ASSERT_TRUE(printed("ready\n"));
  send(SIGSTOP);
  send(SIGTERM);
  EXPECT_EQ(outcome().exit_code, 75);
}

TEST_F(KeeperProcs, EndsWhatRanksHaveLeftBehind) {
  start({.ranks = 2}, {"daemon"});
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_NE(
      err().find("[launch] 2 processes that the ranks had left behind were ended\n"),
      std::string::npos)
      << err();
}

TEST_F(KeeperProcs, StartsAgainWithANewCount) {
  start(
      {.ranks = 2, .max_restarts = 3},
      {"variable=TORCHELASTIC_RESTART_COUNT", "1:fail_before=2", "0:fail_before=2"});
  const Outcome got = outcome();
  EXPECT_EQ(got.exit_code, 0);
  EXPECT_EQ(got.restarts, 2);
  ASSERT_TRUE(got.failure) << "the last one is told";
  EXPECT_EQ(got.failure->ending, Ending{.exit_code = 3});
  for (const char* line : {"COUNT=0\n", "COUNT=1\n", "COUNT=2\n"})
    EXPECT_GE(Launched::count(out(), line), 1) << out();
  EXPECT_NE(
      err().find("all ranks are started again (restart 1 of 3)"), std::string::npos);
  EXPECT_NE(
      err().find("all ranks are started again (restart 2 of 3)"), std::string::npos);
}

}  // namespace
}  // namespace trireme::launch
