#include "trireme/launch/rank_process.h"

#include <sched.h>
#include <stdexcept>
#include <sys/prctl.h>

#include <gtest/gtest.h>

#include "launched.h"
#include "trireme/core/machine.h"

namespace trireme::launch {
namespace {

// One rank, with its output.
class RankProcs : public ::testing::Test {
 protected:
  struct Result {
    Ending ending;
    std::string out;
    std::string err;
  };

  RankProcs() {
    start_.body = &body_;
    start_.variables = {{"RANK", "3"}, {"MINE", "a=b c"}};
    start_.rank = 3;
    start_.leave = [] {};
  }

  void program(std::vector<std::string> steps) {
    body_.program = RANK_PROGRAM;
    body_.arguments = {"the name", mark_.word()};
    body_.arguments.insert(body_.arguments.end(), steps.begin(), steps.end());
  }

  Result run() {
    TestPipe out, err;
    start_.out = out.ends[1];
    start_.err = err.ends[1];
    const pid_t pid = start_rank(start_, state_);
    out.close(1);
    err.close(1);
    EXPECT_EQ(::getpgid(pid), pid) << "known by its parent at once";
    Result result;
    result.out = read_all(out.ends[0]);
    result.err = read_all(err.ends[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    result.ending = WIFSIGNALED(status) ? Ending{.signal = WTERMSIG(status)}
                                        : Ending{.exit_code = WEXITSTATUS(status)};
    return result;
  }

  static std::string read_all(int fd) {
    std::string all;
    std::array<char, 4096> buffer;
    for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;)
      all.append(buffer.data(), static_cast<size_t>(got));
    return all;
  }

  Mark mark_;
  RankBody body_;
  RankStart start_;
  const ProcessState state_ = ProcessState::now();
};

TEST_F(RankProcs, IsTheProgramWithItsArgumentsAndVariablesAlone) {
  program({"say=hello", "error=oh", "variable=MINE", "variable=PATH", "exit=7"});
  const Result result = run();
  EXPECT_EQ(result.ending, Ending{.exit_code = 7});
  EXPECT_EQ(result.out, "hello\nMINE=a=b c\nPATH=\n");
  EXPECT_EQ(result.err, "oh\n");
}

TEST_F(RankProcs, SaysWhyItCannotStart) {
  body_.program = "/nonexistent/program";
  body_.arguments = {"x"};
  const Result result = run();
  EXPECT_EQ(result.ending, Ending{.exit_code = 127});
  EXPECT_EQ(
      result.err,
      "[launch] cannot start /nonexistent/program: No such file or directory\n");
}

TEST_F(RankProcs, RunsOnItsCpus) {
  const auto allowed = allowed_cpus();
  program({"cpus"});
  start_.cpus = {allowed.back()};
  EXPECT_EQ(run().out, text("cpus ", allowed.back(), "\n"));
  start_.cpus = {1 << 20};  // which is not there: the rank runs all the same
  EXPECT_EQ(run().ending, Ending{});
}

TEST_F(RankProcs, FindsSignalsAndLimitsAsTheyWere) {
  program({"state"});
  const std::string before = run().out;
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  rlimit more = state_.files;
  more.rlim_cur = more.rlim_cur == 256 ? 128 : 256;
  ::setrlimit(RLIMIT_NOFILE, &more);
  const std::string now = run().out;
  state_.restore();
  EXPECT_EQ(now, before);
  EXPECT_EQ(run().out, before);
}

TEST_F(RankProcs, KeepsTheDispositionsOfTheLauncher) {
  ProcessState other = state_;
  other.on_pipe.sa_handler = SIG_IGN;
  other.on_child.sa_handler = SIG_IGN;
  ::sigaddset(&other.signals, SIGWINCH);
  other.files.rlim_cur = 200;
  program({"state"});
  TestPipe out;
  start_.out = out.ends[1];
  const pid_t pid = start_rank(start_, other);
  out.close(1);
  EXPECT_EQ(
      read_all(out.ends[0]),
      text("blocked ", SIGWINCH, ", ignored ", SIGPIPE, " ", SIGCHLD, ", files 200\n"));
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

TEST_F(RankProcs, LeavesNoDescriptorOfTheLauncherOpen) {
  program({"open"});
  std::string wanted = "open 0 1 2";
  for (int fd = 3; fd < 1024; ++fd)  // what this program was started with
    if (const int flags = ::fcntl(fd, F_GETFD); flags >= 0 && (flags & FD_CLOEXEC) == 0)
      wanted += text(" ", fd);
  EXPECT_EQ(run().out, text(wanted, "\n"));
}

TEST_F(RankProcs, IsAFunctionWithItsVariables) {
  bool left = false;
  start_.leave = [&left] { left = true; };
  body_.function = [&left](int rank) {
    const char* home = std::getenv("HOME");
    std::cout << "rank " << rank << " " << std::getenv("MINE") << " "
              << (home == nullptr) << left;
    std::cerr << "oh";
    return 5;
  };
  const Result result = run();
  EXPECT_EQ(result.ending, Ending{.exit_code = 5});
  EXPECT_EQ(result.out, "rank 3 a=b c 11");
  EXPECT_EQ(result.err, "oh");
  EXPECT_FALSE(left) << "in the launcher itself nothing is closed";
}

TEST_F(RankProcs, AFunctionThatThrowsFailsWithWhatItThrew) {
  body_.function = [](int) -> int { throw std::runtime_error("no luck"); };
  const Result one = run();
  EXPECT_EQ(one.ending, Ending{.exit_code = 1});
  EXPECT_EQ(one.err, "[launch] rank 3 threw: no luck\n");
  body_.function = [](int) -> int { throw 5; };
  const Result other = run();
  EXPECT_EQ(other.ending, Ending{.exit_code = 1});
  EXPECT_EQ(
      other.err, "[launch] rank 3 threw something that is not a std::exception\n");
}

TEST_F(RankProcs, DiesWithItsParent) {
  program({"ignore=15", "hang"});
  const pid_t parent = ::fork();
  if (parent == 0) {
    start_rank(start_, state_);
    while (true)
      ::pause();
  }
  EXPECT_TRUE(within(kLong, [this] { return mark_.found().size() == 1; }));
  ::kill(parent, SIGKILL);
  EXPECT_EQ(::waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(mark_.gone_within(5s));
}

}  // namespace
}  // namespace trireme::launch
