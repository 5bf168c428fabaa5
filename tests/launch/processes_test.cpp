#include "trireme/launch/processes.h"

#include <algorithm>
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "launched.h"

namespace trireme::launch {
namespace {

// A child that only ends when it is made to.
template <class Before>
pid_t start_stubborn(const Before& before) {
  const pid_t pid = ::fork();
  if (pid != 0)
    return pid;
  ::signal(SIGTERM, SIG_IGN);
  before();
  while (true)
    ::pause();
}

bool runs(pid_t pid) {
  return !find_processes([pid](pid_t one, const ProcessStat&) {
            return one == pid;
          }).empty();
}

// Runs `body` in a process of its own, since it ends all children, and gives its code.
template <class Body>
int in_process(const Body& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_TRUE(within(kLong, [&] { return ::waitpid(pid, &status, WNOHANG) == pid; }));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

TEST(FindProcessesProcs, FindsThisOneWithWhatItIs) {
  const auto found = find_processes([](pid_t pid, const ProcessStat& stat) {
    return pid == ::getpid() && stat.parent == ::getppid() &&
           stat.session == ::getsid(0);
  });
  EXPECT_EQ(found, std::vector<pid_t>{::getpid()});
}

TEST(FindProcessesProcs, DoesNotFindZombies) {
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(runs(child));
  ::waitpid(child, nullptr, 0);
}

TEST(EndChildrenProcs, EndsAllGenerations) {
  EXPECT_EQ(
      in_process([] {
        // Two children; one has a child in a session of its own, which has another.
        TestPipe born;
        pid_t deepest = 0;
        start_stubborn([] {});
        start_stubborn([&] {
          start_stubborn([&] {
            ::setsid();
            const pid_t pid = start_stubborn([] {});
            (void)!::write(born.ends[1], &pid, sizeof pid);
          });
        });
        if (::read(born.ends[0], &deepest, sizeof deepest) != sizeof deepest)
          return 50;
        const int ended = end_children(Deadline::after(kLong));
        if (runs(deepest))
          return 51;
        return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD ? ended : 52;
      }),
      4);
}

TEST(EndChildrenProcs, CountsOnlyWhatItHadToEnd) {
  EXPECT_EQ(in_process([] { return end_children(Deadline::after(kLong)); }), 0);
  EXPECT_EQ(
      in_process([] {
        const pid_t child = ::fork();
        if (child == 0)
          ::_exit(3);
        siginfo_t info{};
        ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
        return end_children(Deadline::after(kLong));
      }),
      0);
}

TEST(EndChildrenProcs, EndsByItsDeadline) {
  // A child that is stopped by a debugger, as it were, cannot be had; here the deadline
  // has simply passed.
  EXPECT_EQ(
      in_process([] {
        const pid_t child = start_stubborn([] {});
        const int ended = end_children(Deadline::after(-1ms));
        const bool there = runs(child);
        ::kill(child, SIGKILL);
        return there ? ended : 53;
      }),
      0);
}

TEST(EndSessionProcs, EndsItsProcessesAndNoOthers) {
  TestPipe born;
  const pid_t other = start_stubborn([] {});
  const pid_t leader = start_stubborn([&] {
    ::setsid();
    start_stubborn([] { ::setpgid(0, 0); });
    const pid_t pid = start_stubborn([] {});
    (void)!::write(born.ends[1], &pid, sizeof pid);
  });
  pid_t grandchild = 0;
  ASSERT_EQ(
      ::read(born.ends[0], &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  end_session(leader, Deadline::after(kLong));
  EXPECT_TRUE(find_processes([leader](pid_t, const ProcessStat& stat) {
                return stat.session == leader;
              }).empty());
  EXPECT_TRUE(runs(other));
  ::kill(other, SIGKILL);
  for (const pid_t pid : {leader, other})
    EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

}  // namespace
}  // namespace trireme::launch
