// spawn() as a library. What `trireme run` makes of it is in tests/integration.
#include "trireme/launch/launcher.h"

#include <cstdlib>
#include <dirent.h>
#include <set>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "launched.h"
#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

namespace fs = std::filesystem;

class SpawnProcs : public ::testing::Test {
 protected:
  ~SpawnProcs() override {
    EXPECT_TRUE(mark_.found().empty()) << "a rank has outlived the call";
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "the call has left a child";
  }

  std::vector<std::string> program(std::vector<std::string> steps) const {
    std::vector<std::string> command = {RANK_PROGRAM, mark_.word()};
    command.insert(command.end(), steps.begin(), steps.end());
    return command;
  }

  // With what the ranks print in files of the test's folder.
  Options to_files(int ranks) const {
    return {
        .ranks = ranks, .redirects = {.all = {.out = true}}, .log_dir = folder_.path()};
  }
  std::string printed(int rank, int attempt = 0) const {
    for (const auto& run : fs::directory_iterator(folder_.path()))
      return read_text_file(
                 run.path() / text("attempt_", attempt) / text(rank) / "stdout.log")
          .value_or("");
    return "no folder";
  }

  const Mark mark_;
  const testing::ScratchFolder folder_;
};

std::string refusal(const Options& options, const std::vector<std::string>& command) {
  try {
    return text("ran and ended with ", spawn(options, command).exit_code);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

std::set<int> open_files() {
  std::set<int> open;
  for (int fd = 0; fd < 1024; ++fd)
    if (::fcntl(fd, F_GETFD) >= 0)
      open.insert(fd);
  return open;
}

TEST_F(SpawnProcs, RunsAProgramAsRanks) {
  const Outcome outcome = spawn(to_files(2), program({"variable=RANK"}));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.restarts, 0);
  EXPECT_FALSE(outcome.failure);
  EXPECT_EQ(printed(0), "RANK=0\n");
  EXPECT_EQ(printed(1), "RANK=1\n");
}

TEST_F(SpawnProcs, LooksForAProgramInThePath) {
  EXPECT_EQ(spawn({.ranks = 1}, {"sh", "-c", "exit 4"}).exit_code, 4);
  EXPECT_EQ(spawn({.ranks = 1}, {"false", "x"}).exit_code, 1) << "two words";
}

TEST_F(SpawnProcs, RunsAFunctionAsRanks) {
  const Outcome outcome = spawn(to_files(3), [](int rank) {
    std::cout << rank << " of " << std::getenv("WORLD_SIZE");  // and no flush
    return 0;
  });
  EXPECT_EQ(outcome.exit_code, 0);
  for (const int rank : {0, 1, 2})
    EXPECT_EQ(printed(rank), text(rank, " of 3"));
}

TEST_F(SpawnProcs, AFunctionStopsTheOthersWhenItFails) {
  const pid_t here = ::getpid();
  const Outcome outcome = spawn({.ranks = 2}, [here](int rank) {
    if (::getpid() == here || ::getpid() != ::getpgid(0))
      return 50;
    while (rank == 0)
      ::pause();
    std::cerr << "the reason\n";
    return 7;
  });
  EXPECT_EQ(outcome.exit_code, 7);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->rank, 1);
  EXPECT_EQ(outcome.failure->ending, Ending{.exit_code = 7});
  EXPECT_EQ(outcome.failure->last_lines, "the reason");
}

TEST_F(SpawnProcs, AFunctionThatThrowsEndsWithOne) {
  const Outcome outcome =
      spawn({.ranks = 1}, [](int) -> int { throw Error("[x] no luck"); });
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.failure->last_lines, "[launch] rank 0 threw: [x] no luck");
}

TEST_F(SpawnProcs, AFunctionIsStartedAgain) {
  const Outcome outcome = spawn({.ranks = 2, .max_restarts = 5}, [](int) {
    return std::string(std::getenv("TORCHELASTIC_RESTART_COUNT")) == "2" ? 0 : 9;
  });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.restarts, 2);
  EXPECT_EQ(outcome.failure->ending, Ending{.exit_code = 9});
}

TEST_F(SpawnProcs, AFunctionHasNoFileOfTheLauncher) {
  const std::set<int> before = open_files();
  const Outcome outcome = spawn(
      {.ranks = 2,
       .tee = {.all = {.out = true, .err = true}},
       .log_dir = folder_.path()},
      [&before](int) {
        for (const int fd : open_files())
          if (!before.contains(fd))
            std::cerr << fd << " is " << fs::read_symlink(text("/proc/self/fd/", fd))
                      << "\n";
        return open_files() == before ? 0 : 1;
      });
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST_F(SpawnProcs, AFunctionNeedsAProcessWithOneThread) {
  std::atomic<bool> done{false};
  std::thread other([&done] {
    while (!done)
      std::this_thread::sleep_for(1ms);
  });
  std::string what = "nothing was thrown";
  try {
    spawn({.ranks = 1}, [](int) { return 0; });
  } catch (const InvalidArgument& error) {
    what = error.what();
  }
  EXPECT_EQ(
      what,
      "[launch] expected to fork ranks from a process with one thread, got 2; call "
      "spawn() earlier, or give it a program");
  EXPECT_EQ(spawn({.ranks = 2}, program({})).exit_code, 0) << "a program does not";
  done = true;
  other.join();
}

TEST_F(SpawnProcs, RefusesWhatCannotBe) {
  const auto command = program({});
  const std::pair<Options, const char*> cases[] = {
      {{.ranks = 0}, "[launch] expected at least one rank, got 0; "},
      {{.ranks = -4}, "[launch] expected at least one rank, got -4; "},
      {{.ranks = 10'000},
       "[launch] expected at most 2048 ranks on one host, got 10000; each is a "
       "process "},
      {{.max_restarts = -1}, "[launch] expected max_restarts and grace of at least 0"},
      {{.grace = -1ms}, "[launch] expected max_restarts and grace of at least 0"},
      {{.master_port = 65'536}, "[launch] expected master_port from 1 to 65535"},
      {{.master_port = -1}, "[launch] expected master_port from 1 to 65535"},
      {{.ranks = 2, .tee = {.all = {}, .ranks = {{2, {.out = true}}}}},
       "[launch] expected redirects and tee for ranks below 2, got one for rank 2"},
      {{.redirects = {.all = {}, .ranks = {{5, {}}}}},
       "[launch] expected redirects and tee for ranks below 1, got one for rank 5"},
      {{.run_id = std::string(1025, 'x')},
       "[launch] expected --rdzv-id of at most 1024 bytes, got 1025; "},
      {{.run_id = "a/b"}, "[launch] expected --rdzv-id without slashes and "},
      {{.run_id = "a\nb"}, "[launch] expected --rdzv-id without slashes and "},
      {{.run_id = std::string("a\0b", 3)}, "[launch] expected --rdzv-id without "},
      {{.master_addr = "0.0.0.0", .master_port = 7, .nodes = Nodes{}},
       "[launch] expected the address of node 0 for the nodes to meet at, got 0.0.0.0"},
      {{.master_addr = "[::]", .master_port = 7, .nodes = Nodes{}},
       "[launch] expected the address of node 0 for the nodes to meet at, got ::, "},
      {{.redirects = {.all = {.out = true}}, .log_dir = "/proc/version/logs"},
       "[launch] expected to write logs to \"/proc/version/logs\", got "}};
  for (const auto& [options, wanted] : cases)
    EXPECT_TRUE(refusal(options, command).starts_with(wanted))
        << refusal(options, command);
  EXPECT_EQ(
      refusal({}, {}),
      "[launch] expected a program to run, got none; give its name first");
  EXPECT_NE(refusal({}, {"/no/such"}).find("no such file"), std::string::npos);
}

TEST_F(SpawnProcs, RunsSeveralProgramsAsOneWorld) {
  const std::vector<Part> parts = {
      {.role = "trainer", .ranks = 2, .command = program({"variable=ROLE_RANK"})},
      {.ranks = 1, .command = program({"variable=ROLE_NAME", "variable=RANK"})}};
  EXPECT_EQ(spawn(to_files(9), parts).exit_code, 0) << "the parts have their own ranks";
  EXPECT_EQ(printed(0), "ROLE_RANK=0\n");
  EXPECT_EQ(printed(1), "ROLE_RANK=1\n");
  EXPECT_EQ(printed(2), "ROLE_NAME=rank_program\nRANK=2\n");
  EXPECT_EQ(printed(3), "");
}

TEST_F(SpawnProcs, SeveralProgramsStartAgainTogether) {
  Options options = to_files(1);
  options.max_restarts = 1;
  const std::vector<Part> parts = {
      {.role = "a", .ranks = 1, .command = program({"say=up", "hang_before=1"})},
      {.role = "b",
       .ranks = 2,
       .command = program({"2:sleep=200", "2:fail_before=1"})}};
  const Outcome outcome = spawn(options, parts);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.restarts, 1);
  EXPECT_EQ(outcome.failure->rank, 2);
  EXPECT_EQ(printed(0, 1), "up\n");
}

TEST_F(SpawnProcs, RefusesPartsBeforeAnythingStarts) {
  const std::string begun = folder_.path() / "begun";
  const auto told = [](const Options& options, const std::vector<Part>& parts) {
    try {
      return text("ran and ended with ", spawn(options, parts).exit_code);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
  };
  const Part good{.role = "good", .command = program({"file=" + begun})};
  const Options nodes{.master_port = 7, .nodes = Nodes{.least = 2, .most = 2}};
  const std::pair<std::string, const char*> cases[] = {
      {told({}, {}), "[launch] expected a program to run, got none"},
      {told({}, {good, {}}), "[launch] expected a program to run, got none"},
      {told({}, {good, good}), "[launch] expected a role of its own for each program"},
      {told({}, {good, {.ranks = 0, .command = {"true"}}}),
       "[launch] expected at least one rank of true, got 0; "},
      {told({}, {good, {.ranks = 2048, .command = {"true"}}}),
       "[launch] expected at most 2048 ranks on one host, got 2049; "},
      {told({}, {good, {.command = {"/no/such"}}}),
       "[launch] expected a program that can be run, got \"/no/such\": no such file"},
      {told({.tee = {.all = {}, .ranks = {{2, {}}}}}, {good, {.command = {"true"}}}),
       "[launch] expected redirects and tee for ranks below 2, got one for rank 2"},
      {told(nodes, {good, {.command = {"true"}}}),
       "[launch] expected one program for a job of several hosts (--nnodes, --hosts), "
       "got 2, from good to true; "},
      {told(nodes, {good}),
       "[launch] expected no --role for a job of several hosts (--nnodes, --hosts), "
       "got "
       "\"good\"; "}};
  for (const auto& [what, wanted] : cases)
    EXPECT_TRUE(what.starts_with(wanted)) << what;
  EXPECT_FALSE(fs::exists(begun));
}

TEST_F(SpawnProcs, RanksFindSignalsAndLimitsAsTheCallerHasThem) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGWINCH);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit fewer = before;
  fewer.rlim_cur = 50;  // so that the keeper has to raise it
  ::setrlimit(RLIMIT_NOFILE, &fewer);
  const Outcome outcome = spawn(to_files(20), program({"state"}));
  ::setrlimit(RLIMIT_NOFILE, &before);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(printed(19), text("blocked ", SIGWINCH, ", ignored, files 50\n"));
}

TEST_F(SpawnProcs, RanksInheritWhatIsIgnored) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);  // without it the keeper would never see a rank end
  ::signal(SIGHUP, SIG_IGN);
  const Outcome outcome = spawn(to_files(2), program({"state", "1:exit=6"}));
  for (const int signal : {SIGPIPE, SIGCHLD, SIGHUP})
    ::signal(signal, SIG_DFL);
  EXPECT_EQ(outcome.exit_code, 6);
  EXPECT_NE(
      printed(1).find(text("ignored ", SIGHUP, " ", SIGPIPE, " ", SIGCHLD, ",")),
      std::string::npos)
      << printed(1);
}

TEST_F(SpawnProcs, ChangesNothingOfTheCaller) {
  const std::set<int> files = open_files();
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  spawn(to_files(2), program({"1:exit=1", "hang"}));
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal)
    EXPECT_EQ(::sigismember(&before, signal), ::sigismember(&after, signal)) << signal;
  EXPECT_EQ(open_files(), files);
  struct sigaction on_pipe {};
  ::sigaction(SIGPIPE, nullptr, &on_pipe);
  EXPECT_EQ(on_pipe.sa_handler, SIG_DFL);
}

TEST_F(SpawnProcs, RankVariablesWinAndTheNumberOfThreadsStays) {
  ::setenv("RANK", "7", 1);
  ::setenv("WORLD_SIZE", "9", 1);
  ::setenv("OMP_NUM_THREADS", "5", 1);
  Options options = to_files(2);
  options.variables = {{"MORE", "yes"}, {"RANK", "8"}};
  const Outcome outcome = spawn(
      options,
      program(
          {"variable=RANK",
           "variable=WORLD_SIZE",
           "variable=OMP_NUM_THREADS",
           "variable=MORE"}));
  for (const char* name : {"RANK", "WORLD_SIZE", "OMP_NUM_THREADS"})
    ::unsetenv(name);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(printed(1), "RANK=1\nWORLD_SIZE=2\nOMP_NUM_THREADS=5\nMORE=yes\n");
}

TEST_F(SpawnProcs, ASignalToTheCallerStopsTheJob) {
  const pid_t here = ::getpid();
  const Outcome outcome = spawn({.ranks = 2}, [here](int rank) {
    if (rank == 0)
      ::kill(here, SIGTERM);
    while (true)
      ::pause();
    return 0;
  });
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_FALSE(outcome.failure);
}

TEST_F(SpawnProcs, ErrorsOfTheKeeperComeBack) {
  // A file stands where the second attempt wants its folder.
  Options options = to_files(1);
  options.max_restarts = 1;
  options.run_id = "run";
  const fs::path folder = folder_.path();
  std::string what = "nothing was thrown";
  try {
    spawn(options, [folder](int) {
      for (const auto& run : fs::directory_iterator(folder))
        std::ofstream(run.path() / "attempt_1") << "in the way";
      return 1;
    });
  } catch (const Error& error) {
    what = error.what();
  }
  EXPECT_NE(what.find("attempt_1/0/stdout.log"), std::string::npos) << what;
}

// A program's other threads must see the end of their pipes while a job runs.
TEST_F(SpawnProcs, TheKeeperHoldsNothingOfTheCallersOtherThreads) {
  const std::string begun = folder_.path() / "begun", done = folder_.path() / "done";
  TestPipe pipe;
  std::thread job([&] {
    EXPECT_EQ(
        spawn({.ranks = 1}, program({text("file=", begun), text("await=", done)}))
            .exit_code,
        0);
  });
  EXPECT_TRUE(within(kLong, [&] { return fs::exists(begun); }));
  pipe.close(1);
  pollfd wait{.fd = pipe.ends[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wait, 1, 5000), 1);
  std::ofstream(done) << "";
  job.join();
}

// Two jobs in two threads: neither keeper may hold what tells the other that the
// launcher is gone.
TEST_F(SpawnProcs, TwoJobsOfOneProcessEndWithIt) {
  TestPipe ready;
  const auto command =
      program({"file=" + (folder_.path() / "x").string(), "say=ready", "hang"});
  const pid_t process = ::fork();
  if (process == 0) {
    ::dup2(ready.ends[1], STDOUT_FILENO);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&command] { spawn({.ranks = 2}, command); });
    for (std::thread& thread : threads)
      thread.join();
    ::_exit(0);
  }
  ready.close(1);
  std::string said;
  std::array<char, 100> buffer;
  while (Launched::count(said, "ready\n") < 8) {
    const ssize_t got = ::read(ready.ends[0], buffer.data(), buffer.size());
    ASSERT_GT(got, 0);
    said.append(buffer.data(), static_cast<size_t>(got));
  }
  ::kill(process, SIGKILL);
  EXPECT_EQ(::waitpid(process, nullptr, 0), process);
  EXPECT_TRUE(mark_.gone_within(10s));
}

}  // namespace
}  // namespace trireme::launch
