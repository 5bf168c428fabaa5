// `trireme run` on several nodes: what their ranks find, and how one node's fate is
// that of all.
#include <filesystem>

#include "run_nodes_case.h"

namespace trireme::launch {
namespace {

TEST_F(RunNodesProcs, TellTheRanksTheirPlaces) {
  const Words steps = {
      "variable=RANK",
      "variable=LOCAL_RANK",
      "variable=GROUP_RANK",
      "variable=ROLE_RANK",
      "variable=WORLD_SIZE",
      "variable=LOCAL_WORLD_SIZE",
      "variable=GROUP_WORLD_SIZE",
      "variable=ROLE_WORLD_SIZE",
      "variable=MASTER_ADDR",
      "variable=MASTER_PORT",
      "variable=TRIREME_STORE",
      "variable=TORCHELASTIC_RUN_ID",
      "variable=TORCHELASTIC_USE_AGENT_STORE",
      "variable=TRIREME_SECURITY"};
  const Words options = {"--nnodes", "3", "--prefix", "--rdzv-id", "job7"};
  const auto with = [&](const char* ranks) {
    Words all = options;
    all.insert(all.end(), {"-n", ranks});
    return all;
  };
  const auto two_ranks = node(2, with("2"), steps);
  const auto one_rank = node(1, with("1"), steps);
  const auto three_ranks = node(0, with("3"), steps);
  for (const auto& [launched, number, first, count] :
       {std::tuple(three_ranks.get(), 0, 0, 3),
        std::tuple(one_rank.get(), 1, 3, 1),
        std::tuple(two_ranks.get(), 2, 4, 2)}) {
    expect(*launched, 0);
    for (int rank = first; rank < first + count; ++rank)
      for (const std::string& line :
           {text("RANK=", rank),
            text("LOCAL_RANK=", rank - first),
            text("GROUP_RANK=", number),
            text("ROLE_RANK=", rank),
            std::string("WORLD_SIZE=6"),
            text("LOCAL_WORLD_SIZE=", count),
            std::string("GROUP_WORLD_SIZE=3"),
            std::string("ROLE_WORLD_SIZE=6"),
            std::string("MASTER_ADDR=127.0.0.1"),
            std::string("TORCHELASTIC_RUN_ID=job7"),
            std::string("TORCHELASTIC_USE_AGENT_STORE=False"),
            std::string("TRIREME_SECURITY=insecure-loopback")})
        EXPECT_TRUE(has(launched->out(), text("[rank ", rank, "] ", line, "\n")))
            << line << " of rank " << rank << "\n"
            << launched->out();
  }
  // The same port and store for all, and none is where the launchers meet.
  const auto value = [](const Launched& launched, const std::string& name) {
    const std::string& out = launched.out();
    const size_t at = out.find("] " + name + "=") + name.size() + 3;
    return out.substr(at, out.find('\n', at) - at);
  };
  for (const char* name : {"MASTER_PORT", "TRIREME_STORE"}) {
    EXPECT_EQ(value(*three_ranks, name), value(*two_ranks, name));
    EXPECT_EQ(value(*three_ranks, name), value(*one_rank, name));
  }
  EXPECT_NE(value(*one_rank, "MASTER_PORT"), text(port_));
  EXPECT_TRUE(value(*one_rank, "TRIREME_STORE").starts_with("tcp://127.0.0.1:"));
}

TEST_F(RunNodesProcs, LogsOfAllHaveOneName) {
  namespace fs = std::filesystem;
  const auto logs = [&](int rank) {
    return node(
        rank,
        two({"--redirects", "1", "--log-dir", folder_.path() / text("logs", rank)}),
        {"variable=RANK"});
  };
  const auto one = logs(1);
  const auto zero = logs(0);
  expect(*zero, 0);
  expect(*one, 0);
  const auto only = [&](int rank) -> fs::path {
    const fs::path base = folder_.path() / text("logs", rank);
    const auto first = fs::directory_iterator(base);
    EXPECT_EQ(std::distance(first, {}), 1);
    return fs::directory_iterator(base)->path();
  };
  EXPECT_EQ(only(0).filename(), only(1).filename());
  EXPECT_EQ(read_text_file(only(1) / "attempt_0" / "1" / "stdout.log"), "RANK=1\n");
}

TEST_F(RunNodesProcs, LogsWithoutAFolderOfTheirOwnAreNamed) {
  const auto one = node(1, two({"--redirects", "1"}), {"variable=RANK"});
  const auto zero = node(0, two({"--redirects", "1"}), {"variable=RANK"});
  expect(*zero, 0);
  expect(*one, 0);
  const std::string line = "[launch] the ranks' output goes to ";
  ASSERT_TRUE(zero->err().starts_with(line)) << zero->err();
  EXPECT_EQ(one->err(), zero->err()) << "they are on one machine";
  const std::string path = zero->err().substr(line.size());
  const std::filesystem::path folder = path.substr(0, path.find('\n'));
  EXPECT_EQ(read_text_file(folder / "attempt_0" / "1" / "stdout.log"), "RANK=1\n");
  std::filesystem::remove_all(folder);
}

TEST_F(RunNodesProcs, AFailureOfEitherEndsBothWithItsCode) {
  for (const int failing : {0, 1, 2}) {
    port_ = quiet_port();
    const Words steps = {
        text(failing, ":error=no luck"), text(failing, ":exit=3"), "hang"};
    const auto one = node(1, two({"-n", "2"}), steps);
    const auto zero = node(0, kTwo, steps);
    expect(*zero, 3);
    expect(*one, 3);
    for (const Launched* launched : {zero.get(), one.get()}) {
      expect_said(
          *launched,
          text(
              "[launch] rank ",
              failing,
              " of 3, on node ",
              failing == 0 ? 0 : 1,
              " ("));
      expect_said(*launched, "), exited with code 3 after ");
      expect_said(*launched, "; the end of its stderr:\n    no luck\n");
    }
    expect_said(failing == 0 ? *one : *zero, "; the ranks here are stopped; ");
  }
}

TEST_F(RunNodesProcs, ACrashIsToldByItsSignal) {
  const Words steps = {"1:raise=11", "hang"};
  const auto one = node(1, kTwo, steps);
  const auto zero = node(0, kTwo, steps);
  expect(*zero, 128 + SIGSEGV);
  expect(*one, 128 + SIGSEGV);
  expect_said(*zero, "was ended by SIGSEGV");
}

TEST_F(RunNodesProcs, StubbornRanksOfOtherNodesAreKilled) {
  const auto one = node(1, two({"--grace", "0.3"}), {"ignore=15", "child", "hang"});
  const auto zero = node(0, two({"--grace", "0.3"}), {"sleep=500", "exit=4"});
  const Stopwatch watch;
  expect(*zero, 4);
  expect(*one, 4);
  EXPECT_LT(watch.passed(), 20s);
  EXPECT_TRUE(mark_.gone_within(5s));
}

TEST_F(RunNodesProcs, AllStartAgainAfterAFailureOfOne) {
  const Words steps = {
      "older",
      "variable=TORCHELASTIC_RESTART_COUNT",
      "1:fail_before=2",
      "hang_before=2"};
  const auto one = node(1, two({"--max-restarts", "2"}), steps);
  const auto zero = node(0, two({"--max-restarts", "2", "--rdzv-id", "again"}), steps);
  expect(*zero, 0);
  expect(*one, 0);
  for (const Launched* launched : {zero.get(), one.get()}) {
    for (const char* line : {"COUNT=0\n", "COUNT=1\n", "COUNT=2\n"})
      EXPECT_EQ(Launched::count(launched->out(), line), 1) << launched->out();
    expect_said(*launched, "; all ranks are started again (restart 1 of 2)");
    expect_said(*launched, "; all ranks are started again (restart 2 of 2)");
  }
}

TEST_F(RunNodesProcs, EachStartHasAStoreOfItsOwn) {
  const Words steps = {"variable=TRIREME_STORE", "1:fail_before=1", "hang_before=1"};
  const auto one = node(1, two({"--max-restarts", "1"}), steps);
  const auto zero = node(0, two({"--max-restarts", "1"}), steps);
  expect(*zero, 0);
  expect(*one, 0);
  EXPECT_EQ(zero->out(), one->out());
  const size_t end = zero->out().find('\n');
  EXPECT_NE(zero->out().substr(0, end), zero->out().substr(end + 1, end));
}

TEST_F(RunNodesProcs, NoRestartIsLeft) {
  const Words steps = {"0:exit=5", "hang"};
  const auto one = node(1, two({"--max-restarts", "1"}), steps);
  const auto zero = node(0, two({"--max-restarts", "1"}), steps);
  expect(*zero, 5);
  expect(*one, 5);
  EXPECT_EQ(Launched::count(one->err(), "rank 0 of 2, on node 0"), 2) << one->err();
}

TEST_F(RunNodesProcs, ASignalToEitherEndsBoth) {
  for (const int signal : {SIGINT, SIGTERM})
    for (const int stopped : {0, 1}) {
      port_ = quiet_port();
      const LaunchedPtr nodes[] = {
          node(0, two({"-n", "2"}), {"say=ready", "hang"}),
          node(1, kTwo, {"say=ready", "hang"})};
      ASSERT_TRUE(nodes[0]->says("ready\n", 2)) << nodes[0]->err();
      ASSERT_TRUE(nodes[1]->says("ready\n")) << nodes[1]->err();
      nodes[stopped]->kill(signal);
      for (const LaunchedPtr& one : nodes)
        expect(*one, 128 + signal);
      expect_said(*nodes[1 - stopped], text("[launch] node ", stopped, " ("));
      expect_said(
          *nodes[1 - stopped],
          text(
              ") was asked to stop with ",
              signal_name(signal),
              "; the ranks here are stopped\n"));
    }
}

TEST_F(RunNodesProcs, TheSecondSignalEndsTheGraceOfAll) {
  const Words steps = {"ignore=2", "say=ready", "hang"};
  const auto one = node(1, two({"--grace", "1000"}), steps);
  const auto zero = node(0, two({"--grace", "1000"}), steps);
  ASSERT_TRUE(zero->says("ready\n"));
  ASSERT_TRUE(one->says("ready\n"));
  const Stopwatch watch;
  zero->kill(SIGINT);
  ASSERT_TRUE(one->complains("was asked to stop"));
  zero->kill(SIGINT);
  expect(*zero, 130);
  expect(*one, 130);
  EXPECT_LT(watch.passed(), 20s);
}

TEST_F(RunNodesProcs, AUserSignalStopsTheRanksOfAllWithoutARestart) {
  const Words steps = {"answer_user=75", "say=ready", "hang_before=1"};
  const auto one = node(1, two({"--max-restarts", "3"}), steps);
  const auto zero = node(0, two({"--max-restarts", "3"}), steps);
  ASSERT_TRUE(zero->says("ready\n"));
  ASSERT_TRUE(one->says("ready\n"));
  one->kill(SIGUSR1);
  expect(*zero, 75);
  expect(*one, 75);
}

TEST_F(RunNodesProcs, AUserSignalBeforeThereAreRanksIsNotLostInSilence) {
  const auto zero = node(0, kTwo, {"hang"});
  std::this_thread::sleep_for(500ms);
  zero->kill(SIGUSR1);
  EXPECT_TRUE(zero->complains(
      "[launch] SIGUSR1 came while no rank runs here; send it again later\n"));
  zero->kill(SIGTERM);
  expect(*zero, 143);
}

TEST_F(RunNodesProcs, ASignalBeforeAllAreThereEndsThoseThatAre) {
  const auto one = node(1, {"--nnodes", "3"}, {"hang"});
  const auto zero = node(0, {"--nnodes", "3"}, {"hang"});
  std::this_thread::sleep_for(500ms);
  one->kill(SIGINT);
  expect(*one, 130);
  // On a busy machine it may not have been there yet; then the other knows nothing.
  if (!within(5s, [&] { return zero->complains_now("was asked to stop with SIGINT"); }))
    zero->kill(SIGINT);
  expect(*zero, 130);
}

TEST_F(RunNodesProcs, ANodeThatVanishesIsNamedByTheOther) {
  for (const int vanishing : {0, 1}) {
    port_ = quiet_port();
    const LaunchedPtr nodes[] = {
        node(0, kTwo, {"say=ready", "hang"}), node(1, kTwo, {"say=ready", "hang"})};
    for (const LaunchedPtr& one : nodes)
      ASSERT_TRUE(one->says("ready\n")) << one->err();
    const Stopwatch watch;
    kill_whole(*nodes[vanishing]);
    expect(*nodes[1 - vanishing], 1);
    EXPECT_LT(watch.passed(), 4s);  // two, and a second for the ranks to be stopped
    expect_said(
        *nodes[1 - vanishing],
        vanishing == 1
            ? "[launch] node 1 ("
            : "[launch] expected the launcher of node 0 at tcp://127.0.0.1:");
    expect_said(*nodes[1 - vanishing], "; the ranks here are stopped\n");
    EXPECT_TRUE(mark_.gone_within(10s)) << "its ranks die with their keeper";
  }
}

TEST_F(RunNodesProcs, AKilledKeeperIsReportedToTheOther) {
  const auto one = node(1, kTwo, {"say=ready", "hang"});
  const auto zero = node(0, kTwo, {"say=ready", "hang"});
  ASSERT_TRUE(zero->says("ready\n"));
  ASSERT_TRUE(one->says("ready\n"));
  ::kill(keeper_of(*one), SIGKILL);
  expect(*one, 1);
  expect(*zero, 1);
  expect_said(*zero, "is gone: [launch] expected the outcome of the job, got none");
}

TEST_F(RunNodesProcs, AStoppedLauncherCountsAsLost) {
  const auto one = node(1, kTwo, {"say=ready", "hang"});
  const auto zero = node(0, kTwo, {"say=ready", "hang"});
  ASSERT_TRUE(zero->says("ready\n"));
  ASSERT_TRUE(one->says("ready\n"));
  one->kill(SIGSTOP);  // as silent as behind a broken link
  const Stopwatch watch;
  expect(*zero, 1);
  EXPECT_LT(watch.passed(), 7s);
  expect_said(*zero, "[launch] node 1 (");
  one->kill(SIGKILL);
  EXPECT_TRUE(mark_.gone_within(10s));
}

// Its session is not lost yet when the new one comes.
TEST_F(RunNodesProcs, AKilledNodeIsReplacedAtOnce) {
  const Words options = two({"--max-restarts", "1"});
  const Words steps = {"say=ready", "hang_before=1"};
  const auto zero = node(0, options, steps);
  const auto one = node(1, options, steps);
  ASSERT_TRUE(zero->says("ready\n"));
  ASSERT_TRUE(one->says("ready\n"));
  kill_whole(*one);
  const auto again = node(1, options, steps);
  expect(*again, 0);
  expect(*zero, 0);
  EXPECT_EQ(again->out(), "ready\n");
}

TEST_F(RunNodesProcs, WithBoundsStartWithoutTheLast) {
  const Words options = {"--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=1"};
  const Words steps = {"variable=GROUP_WORLD_SIZE"};
  const auto zero = node(0, options, steps);
  const auto one = node(1, options, steps);
  expect(*zero, 0);
  expect(*one, 0);
  EXPECT_EQ(one->out(), "GROUP_WORLD_SIZE=2\n");
}

TEST_F(RunNodesProcs, WithBoundsGoOnWithoutALostNode) {
  const Words options = {
      "--nnodes", "2:3", "--max-restarts", "1", "--rdzv-conf", "last_call_timeout=1"};
  const Words steps = {"variable=RANK", "variable=WORLD_SIZE", "hang_before=1"};
  const auto zero = node(0, options, steps);
  const auto one = node(1, options, steps);
  const auto two = node(2, options, steps);
  for (Launched* launched : {zero.get(), one.get(), two.get()})
    ASSERT_TRUE(launched->says("WORLD_SIZE=3\n")) << launched->err();
  kill_whole(*one);
  expect(*zero, 0);
  expect(*two, 0);
  EXPECT_TRUE(has(two->out(), "RANK=1\nWORLD_SIZE=2\n")) << two->out();
  expect_said(*two, "[launch] node 1 (");
  expect_said(*two, " when enough nodes are there (restart 1 of 1)");
}

TEST_F(RunNodesProcs, WithBoundsALateNodeJoinsAtTheNextStart) {
  const Words options = {
      "--nnodes", "1:2", "--max-restarts", "1", "--rdzv-conf", "last_call_timeout=0.2"};
  const std::string file = folder_.path() / "file";
  const Words steps = {"variable=WORLD_SIZE", text("0:await=", file), "fail_before=1"};
  const auto zero = node(0, options, steps);
  ASSERT_TRUE(zero->says("WORLD_SIZE=1\n")) << zero->err();
  const auto one = node(1, options, steps);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(one->out(), "");
  folder_.write("file", "");
  expect(*zero, 0);
  expect(*one, 0);
  EXPECT_EQ(one->out(), "WORLD_SIZE=2\n");
}

}  // namespace
}  // namespace trireme::launch
