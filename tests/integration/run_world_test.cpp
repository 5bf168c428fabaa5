// `trireme run` with ranks that meet over shared memory.
#include <filesystem>

#include "run_case.h"
#include "trireme/core/segment_file.h"
#include "trireme/launch/variables.h"
#include "trireme/net/job_key.h"

namespace trireme::launch {
namespace {

class RunWorldProcs : public RunCase {
 protected:
  std::unique_ptr<Launched> world(
      const Words& options,
      const std::string& mode,
      int rank = 1,
      const std::function<void()>& prepare = {}) const {
    Words all = {TRIREME_PROGRAM, "run"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", WORLD_RANK, mark_.word(), mode, text(rank)});
    return std::make_unique<Launched>(all, prepare);
  }
  // Of a job of two nodes, with a key; three ranks, two of them on node 0.
  std::unique_ptr<Launched> node(
      int number, const std::string& mode, Words options = {}, int rank = 1) const {
    options.insert(
        options.end(),
        {"--nnodes",
         "2",
         "--node-rank",
         text(number),
         "--master-port",
         text(port_),
         "-n",
         text(2 - number)});
    return world(options, mode, rank, [this] {
      ::unsetenv("TRIREME_SECURITY");
      ::setenv("TRIREME_JOB_KEY", key_.c_str(), 1);
    });
  }
  const int port_ = quiet_port();
  const std::string key_ = net::JobKey::random().text();

  // A job whose ranks wait in their segment for one that never comes; its path.
  std::string await_segment(Launched& launched) const {
    EXPECT_TRUE(launched.says("segment ", 2) && launched.says("\n", 2));
    const size_t begin = launched.out().find("trireme-");
    const std::string path = text(
        kSegmentFolder,
        "/",
        launched.out().substr(begin, launched.out().find('\n', begin) - begin));
    EXPECT_TRUE(within(kLong, [&] { return std::filesystem::exists(path); })) << path;
    return path;
  }
};

TEST_F(RunWorldProcs, RanksMeet) {
  const auto launched = world({"-n", "3"}, "");
  EXPECT_EQ(launched->finish(), Ending{}) << launched->err();
  for (const char* line :
       {"rank 0 has the sum 6\n", "rank 1 has the sum 6\n", "rank 2 has the sum 6\n"})
    EXPECT_NE(launched->out().find(line), std::string::npos) << launched->out();
}

TEST_F(RunWorldProcs, RanksOfTwoProgramsMeet) {
  Words all = {
      TRIREME_PROGRAM, "run", "-n", "2", "--role", "trainer", "--", WORLD_RANK};
  all.insert(all.end(), {mark_.word(), ":", "--role", "server", "--", WORLD_RANK});
  Words failing = all;
  all.push_back(mark_.word());
  Launched launched(all);
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  EXPECT_EQ(Launched::count(launched.out(), "has the sum 6\n"), 3) << launched.out();
  failing.insert(failing.end(), {mark_.word(), "exit_before_init", "2"});
  Launched failed(failing);
  EXPECT_EQ(failed.finish(), Ending{.exit_code = 9}) << failed.err();
  EXPECT_EQ(
      Launched::count(
          failed.err(), "[launch] rank 2 (server 0) of 3 exited with code 9"),
      1)
      << failed.err();
}

TEST_F(RunWorldProcs, ARankThatExitsBeforeInitEndsTheOthers) {
  const Stopwatch watch;
  const auto launched = world({"-n", "3"}, "exit_before_init");
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 9}) << launched->err();
  EXPECT_LT(watch.passed(), 20s) << "the others would wait for five minutes";
  EXPECT_NE(
      launched->err().find("[launch] rank 1 of 3 exited with code 9 after "),
      std::string::npos)
      << launched->err();
}

// Killed before it has left any trace in the segment: only the launcher knows of it.
TEST_F(RunWorldProcs, ARankThatIsKilledBeforeInitIsKnownToTheOthers) {
  for (const int rank : {0, 1}) {
    const Stopwatch watch;
    const auto launched =
        world({"-n", "3", "--grace", "1000"}, "kill_before_init", rank);
    EXPECT_EQ(launched->finish(), Ending{.exit_code = 137}) << launched->err();
    EXPECT_LT(watch.passed(), 20s) << "they do not listen to SIGTERM";
    EXPECT_EQ(
        Launched::count(
            launched->err(),
            rank == 0 ? "expected rank 0 to start the world, but its process has ended"
                      : "expected rank 1 to join the world, but its process has ended"),
        3)
        << "said by two, and quoted once:\n"
        << launched->err();
  }
}

// Rank 0 has started the world and given it up: that is not what went wrong.
TEST_F(RunWorldProcs, ARankThatComesAfterTheOthersGaveUpNamesTheFirst) {
  const auto launched = world({"-n", "3", "--grace", "1000"}, "kill_before_late");
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 137}) << launched->err();
  EXPECT_GE(
      Launched::count(
          launched->err(),
          "expected rank 1 to join the world, but its process has ended"),
      2)
      << launched->err();
  EXPECT_EQ(Launched::count(launched->err(), "expected rank 0"), 0) << launched->err();
}

TEST_F(RunWorldProcs, TheReportOnAKilledRankQuotesTheOthers) {
  const auto launched = world({"-n", "3"}, "kill_after_init");
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 137}) << launched->err();
  const size_t report =
      launched->err().find("[launch] rank 1 of 3 was ended by SIGKILL");
  ASSERT_NE(report, std::string::npos) << launched->err();
  const std::string rest = launched->err().substr(report);
  EXPECT_NE(rest.find("it wrote nothing to stderr, but rank "), std::string::npos)
      << rest;
  EXPECT_NE(rest.find("expected rank 1 to be alive"), std::string::npos) << rest;
}

TEST_F(RunWorldProcs, AJobThatIsStoppedWhileItStartsLeavesNoSegment) {
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    const auto launched = world({"-n", "3"}, "late", 2);
    const std::string path = await_segment(*launched);
    launched->kill(signal);
    launched->finish();
    EXPECT_TRUE(mark_.gone_within(10s));
    EXPECT_TRUE(within(10s, [&] { return !std::filesystem::exists(path); })) << path;
  }
}

TEST_F(RunWorldProcs, AKilledKeeperLeavesNoSegmentEither) {
  const auto launched = world({"-n", "3"}, "late", 2);
  const std::string path = await_segment(*launched);
  ::kill(keeper_of(*launched), SIGKILL);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 1});
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RunWorldProcs, ARestartDoesNotMeetAnOldRank) {
  const auto launched =
      world({"-n", "2", "--max-restarts", "1", "--grace", "0.5"}, "linger");
  EXPECT_EQ(launched->finish(), Ending{}) << launched->err();
  for (const char* line : {"rank 0 has the sum 3\n", "rank 1 has the sum 3\n"})
    EXPECT_EQ(Launched::count(launched->out(), line), 1) << launched->out();
  EXPECT_EQ(Launched::count(launched->err(), "exited with code 3"), 1)
      << launched->err();
}

TEST_F(RunWorldProcs, TwoJobsOnOneHostDoNotMeet) {
  const auto one = world({"-n", "2"}, "");
  const auto other = world({"-n", "3"}, "");
  EXPECT_EQ(one->finish(), Ending{}) << one->err();
  EXPECT_EQ(other->finish(), Ending{}) << other->err();
  EXPECT_EQ(Launched::count(one->out(), "has the sum 3\n"), 2) << one->out();
  EXPECT_EQ(Launched::count(other->out(), "has the sum 6\n"), 3) << other->out();
}

// -- over tcp

TEST_F(RunWorldProcs, RanksOfOneHostMeetOverTcpWithoutBeingToldAKey) {
  const auto launched = world({"-n", "3"}, "", 1, [] {
    for (const char* name : kSecurityVariables)
      ::unsetenv(name);
    ::setenv("TRIREME_BACKEND", "tcp", 1);
  });
  EXPECT_EQ(launched->finish(), Ending{}) << launched->err();
  EXPECT_EQ(Launched::count(launched->out(), "has the sum 6\n"), 3) << launched->out();
}

TEST_F(RunWorldProcs, RanksOfTwoNodesMeet) {
  const auto one = node(1, "");
  const auto zero = node(0, "");
  EXPECT_EQ(zero->finish(), Ending{}) << zero->err();
  EXPECT_EQ(one->finish(), Ending{}) << one->err();
  for (const char* line : {"rank 0 has the sum 6\n", "rank 1 has the sum 6\n"})
    EXPECT_EQ(Launched::count(zero->out(), line), 1) << zero->out();
  EXPECT_EQ(one->out(), "rank 2 has the sum 6\n");
}

TEST_F(RunWorldProcs, ARankThatIsKilledOnAnotherNodeEndsAll) {
  for (const int rank : {1, 2}) {
    const auto one = node(1, "kill_after_init", {}, rank);
    const auto zero = node(0, "kill_after_init", {}, rank);
    EXPECT_EQ(zero->finish(), Ending{.exit_code = 137}) << zero->err();
    EXPECT_EQ(one->finish(), Ending{.exit_code = 137}) << one->err();
    for (const Launched* launched : {zero.get(), one.get()})
      EXPECT_NE(
          launched->err().find(
              text("[launch] rank ", rank, " of 3, on node ", rank - 1)),
          std::string::npos)
          << launched->err();
  }
}

TEST_F(RunWorldProcs, ARestartOfTwoNodesDoesNotMeetAnOldRank) {
  const Words options = {"--max-restarts", "1", "--grace", "0.5"};
  const auto one = node(1, "linger", options);
  const auto zero = node(0, "linger", options);
  EXPECT_EQ(zero->finish(), Ending{}) << zero->err();
  EXPECT_EQ(one->finish(), Ending{}) << one->err();
  EXPECT_EQ(Launched::count(zero->out(), "has the sum 6\n"), 2) << zero->out();
  EXPECT_EQ(Launched::count(one->out(), "has the sum 6\n"), 1) << one->out();
}

}  // namespace
}  // namespace trireme::launch
