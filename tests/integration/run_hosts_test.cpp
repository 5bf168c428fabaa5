// `trireme run --hosts`, with a command in place of ssh that stays on this machine.
#include <filesystem>
#include <sys/stat.h>

#include "run_case.h"
#include "trireme/core/environment.h"
#include "trireme/core/proc_text.h"

namespace trireme::launch {
namespace {

class RunHostsProcs : public RunCase {
 protected:
  // `ssh HOST COMMAND`, which notes how it was called and what came to its stdin.
  std::string fake_ssh(const std::string& before = "") const {
    const std::string path = folder_.write(
        "ssh",
        text(
            "#!/bin/sh\n",
            before,
            "echo \"$@\" >> ",
            (folder_.path() / "calls").string(),
            "\nhost=$1; shift\n",
            "umask 077; cat > ",
            (folder_.path() / "stdin").string(),
            ".$host\nexec sh -c \"$*\" < ",
            (folder_.path() / "stdin").string(),
            ".$host\n"));
    ::chmod(path.c_str(), 0700);
    return path;
  }
  std::unique_ptr<Launched> hosts(const Words& options, const Words& steps) const {
    return launch(options, steps, [this] {
      for (const auto& [name, value] :
           Environment::of_process().with_prefix("TRIREME_"))
        ::unsetenv(name.c_str());
      for (const auto& [name, value] : variables_)
        ::setenv(name.c_str(), value.c_str(), 1);
    });
  }
  std::string note(const std::string& name) const {
    return read_text_file(folder_.path() / name).value_or("");
  }
  std::string key_on_stdin(const std::string& host) const {
    const std::string block = note("stdin." + host);
    const std::string name = "TRIREME_JOB_KEY=";
    const size_t at = block.find(name);
    return at == std::string::npos ? "" : block.substr(at + name.size(), 64);
  }

  Environment::Variables variables_;
};

TEST_F(RunHostsProcs, StartsTheOthersAndGivesThemTheirPlaces) {
  variables_ = {
      {"TRIREME_SSH", fake_ssh()},
      {"TRIREME_MARK", "it's $HOME"},
      {"OMP_PROC_BIND", "x y"}};
  const auto launched = hosts(
      {"--hosts", "127.0.0.1,b,c", "-n", "2", "--prefix"},
      {"variable=GROUP_RANK",
       "variable=OMP_PROC_BIND",
       "variable=TRIREME_MARK",
       "error=a line",
       "say=a 'quoted' $word"});
  EXPECT_EQ(launched->finish(), Ending{}) << launched->err();
  for (int rank = 0; rank < 6; ++rank)
    for (const std::string& line :
         {text("GROUP_RANK=", rank / 2),
          std::string("OMP_PROC_BIND=x y"),
          std::string("TRIREME_MARK=it's $HOME"),
          std::string("a 'quoted' $word")})
      EXPECT_EQ(
          Launched::count(launched->out(), text("[rank ", rank, "] ", line, "\n")), 1)
          << line << "\n"
          << launched->out();
  EXPECT_EQ(Launched::count(launched->err(), "begin --hosts with the name by "), 1);
  for (const char* line :
       {"[rank 0] a line\n", "[b] [rank 2] a line\n", "[c] [rank 5] a line\n"})
    EXPECT_EQ(Launched::count(launched->err(), line), 1) << launched->err();
  EXPECT_TRUE(mark_.gone_within(10s));
}

TEST_F(RunHostsProcs, ShowsTheKeyToNobody) {
  const auto launched = hosts(
      {"--hosts", "127.0.0.1,b", "--ssh", fake_ssh()},
      {"variable=TRIREME_JOB_KEY", "hang"});
  ASSERT_TRUE(launched->says("TRIREME_JOB_KEY=", 2) && launched->says("\n", 2))
      << launched->err();
  const std::string key = key_on_stdin("b");
  ASSERT_EQ(key.size(), 64u);
  const std::string rank_key = launched->out().substr(16, 64);
  for (const pid_t pid :
       find_processes([](pid_t, const ProcessStat&) { return true; })) {
    const auto words = read_text_file(text("/proc/", pid, "/cmdline")).value_or("");
    EXPECT_EQ(words.find(key), std::string::npos) << words;
    EXPECT_EQ(words.find(rank_key), std::string::npos) << words;
  }
  EXPECT_EQ(note("calls").find(key), std::string::npos);
  launched->kill(SIGTERM);
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 143});
  EXPECT_EQ(Launched::count(launched->out() + launched->err(), key), 0);
}

// The ranks of node 0 have ended, so its launcher is done at once: the others must have
// heard of the signal before it waits for them.
TEST_F(RunHostsProcs, ASignalReachesTheOthersThoughNoRankIsLeftHere) {
  for (int i = 0; i < 5; ++i) {
    const auto launched = hosts(
        {"--hosts", "127.0.0.1,b", "--ssh", fake_ssh()}, {"1:say=ready", "1:hang"});
    ASSERT_TRUE(launched->says("ready\n")) << launched->err();
    std::this_thread::sleep_for(200ms);
    const Stopwatch watch;
    launched->kill(SIGINT);
    EXPECT_EQ(launched->finish(), Ending{.exit_code = 130}) << launched->err();
    EXPECT_LT(watch.passed(), 10s);
  }
}

TEST_F(RunHostsProcs, AFailureThereIsTheJobs) {
  const auto launched = hosts(
      {"--hosts", "127.0.0.1,b", "--ssh", fake_ssh()},
      {"1:error=no luck", "1:exit=7", "hang"});
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 7}) << launched->err();
  EXPECT_EQ(Launched::count(launched->err(), "rank 1 of 2, on node 1 ("), 2)
      << launched->err();
  EXPECT_EQ(Launched::count(launched->err(), "\n[b] [launch] rank 1 of 2"), 1)
      << launched->err();
  EXPECT_TRUE(mark_.gone_within(10s));
}

TEST_F(RunHostsProcs, AHostThatCannotBeReachedEndsTheJobAtOnce) {
  const Stopwatch watch;
  const auto launched = hosts(
      {"--hosts",
       "127.0.0.1,b",
       "--ssh",
       fake_ssh("echo b: no route to host >&2; exit 255\n")},
      {});
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 1});
  EXPECT_LT(watch.passed(), 30s);
  EXPECT_NE(
      launched->err().find("[launch] expected to start a node on b, but its command "
                           "exited with code 255: b: no route to host\n"),
      std::string::npos)
      << launched->err();
}

TEST_F(RunHostsProcs, ACommandThatDoesNothingEndsTheJobAtOnce) {
  const Stopwatch watch;
  const auto launched = hosts({"--hosts", "127.0.0.1,b", "--ssh", "true"}, {});
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 1});
  EXPECT_LT(watch.passed(), 30s);
  EXPECT_NE(
      launched->err().find("[launch] expected to start a node on b, but its command "
                           "exited with code 0"),
      std::string::npos)
      << launched->err();
}

TEST_F(RunHostsProcs, AHostThatDiesIsNotWaitedFor) {
  const auto launched = hosts(
      {"--hosts", "127.0.0.1,b", "--ssh", fake_ssh(), "--max-restarts", "3"},
      {"pid", "hang"});
  ASSERT_TRUE(launched->says("\n", 2)) << launched->err();
  const auto nodes = find_processes([&](pid_t pid, const ProcessStat&) {
    const auto words = read_text_file(text("/proc/", pid, "/cmdline")).value_or("");
    return words.find("--stdin-variables") != std::string::npos &&
           words.find(mark_.word()) != std::string::npos;
  });
  ASSERT_FALSE(nodes.empty());
  for (const pid_t pid : nodes)
    ::kill(pid, SIGKILL);
  const Stopwatch watch;
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 1});
  EXPECT_LT(watch.passed(), 40s);
  EXPECT_NE(
      launched->err().find("[launch] expected to start a node on b, but its command "
                           "was ended by SIGKILL"),
      std::string::npos)
      << launched->err();
}

TEST_F(RunHostsProcs, NothingIsLeftWhenTheFirstIsKilled) {
  const auto launched = hosts(
      {"--hosts", "127.0.0.1,b", "--ssh", fake_ssh(), "--grace", "0.5"},
      {"ignore=15", "say=ready", "hang"});
  ASSERT_TRUE(launched->says("ready\n", 2)) << launched->err();
  launched->kill(SIGKILL);
  EXPECT_TRUE(mark_.gone_within(30s)) << mark_.found().size();
}

// Alone it needs neither a key nor ssh.
TEST_F(RunHostsProcs, OneHostSimplyRuns) {
  const auto launched =
      hosts({"--hosts", "127.0.0.1", "-n", "2"}, {"variable=GROUP_WORLD_SIZE"});
  EXPECT_EQ(launched->finish(), Ending{}) << launched->err();
  EXPECT_EQ(launched->out(), "GROUP_WORLD_SIZE=1\nGROUP_WORLD_SIZE=1\n");
  EXPECT_EQ(launched->err(), "");
}

TEST_F(RunHostsProcs, WhatCannotBeMeantIsRefused) {
  const std::pair<Words, const char*> cases[] = {
      {{"--hosts", "127.0.0.1,b,b"}, "expected --hosts to name each host once"},
      {{"--hosts", ","}, "expected --hosts to name each host once"},
      {{"--hosts", "192.0.2.1,b"}, "expected the first of --hosts to be this machine"},
      {{"--hosts", "127.0.0.1,b", "--nnodes", "2"}, "expected --hosts alone"},
      {{"--hosts", "127.0.0.1,b", "--ssh", "no-such-command"},
       "expected a program that can be run, got \"no-such-command\""}};
  for (const auto& [options, reason] : cases) {
    const auto launched = hosts(options, {});
    EXPECT_EQ(launched->finish(), Ending{.exit_code = 2}) << reason;
    EXPECT_NE(launched->err().find(reason), std::string::npos) << launched->err();
  }
}

}  // namespace
}  // namespace trireme::launch
