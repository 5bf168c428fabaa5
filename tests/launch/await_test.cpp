// The launcher's side against keepers that the tests make up.
#include "trireme/launch/await.h"

#include <csignal>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "launched.h"

namespace trireme::launch {
namespace {

// Forks a keeper that does `body` with its end of the socket.
template <class Body>
KeeperLink fake_keeper(const Body& body, int signals = -1) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    ::close(ends[0]);
    body(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  return {.keeper = keeper, .socket = ends[0], .signals = signals};
}

std::string error_of(const KeeperLink& link) {
  try {
    await_outcome(link);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(AwaitProcs, BringsTheOutcomeOver) {
  const Outcome sent{
      .exit_code = 139,
      .restarts = 2,
      .failure = Failure{
          .rank = 11,
          .ending = {.exit_code = 0, .signal = SIGSEGV, .core_dumped = true},
          .last_lines = "one\n\n  \"two\" 3\n"}};
  const KeeperLink link = fake_keeper([&](int socket) { send_outcome(socket, sent); });
  const Outcome got = await_outcome(link);
  EXPECT_EQ(got.exit_code, 139);
  EXPECT_EQ(got.restarts, 2);
  ASSERT_TRUE(got.failure);
  EXPECT_EQ(got.failure->rank, 11);
  EXPECT_EQ(got.failure->ending, sent.failure->ending);
  EXPECT_EQ(got.failure->last_lines, sent.failure->last_lines);
  EXPECT_EQ(::waitpid(link.keeper, nullptr, WNOHANG), -1) << "it has been reaped";
}

TEST(AwaitProcs, BringsAnOutcomeWithoutFailureOver) {
  const Outcome got =
      await_outcome(fake_keeper([](int socket) { send_outcome(socket, {}); }));
  EXPECT_EQ(got.exit_code, 0);
  EXPECT_EQ(got.restarts, 0);
  EXPECT_FALSE(got.failure);
}

// A signal may come when the keeper has already said all.
TEST(AwaitProcs, AKeeperNeedNotReadWhatCameAtItsEnd) {
  const KeeperLink link = fake_keeper([](int socket) {
    pollfd wait{.fd = socket, .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, static_cast<int>(kLong.count()));
    send_outcome(socket, {.exit_code = 3});
  });
  const int signal = SIGTERM;
  ASSERT_EQ(::send(link.socket, &signal, sizeof signal, 0), ssize_t{sizeof signal});
  siginfo_t info{};
  ASSERT_EQ(
      ::waitid(P_PID, static_cast<id_t>(link.keeper), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(await_outcome(link).exit_code, 3);
}

TEST(AwaitProcs, ThrowsTheKeepersError) {
  EXPECT_EQ(
      error_of(fake_keeper([](int socket) { send_error(socket, "[launch] no luck"); })),
      "[launch] no luck");
}

TEST(AwaitProcs, SaysHowAKeeperDied) {
  EXPECT_EQ(
      error_of(fake_keeper([](int) { ::raise(SIGKILL); })),
      "[launch] expected the outcome of the job, got none: the process that kept its "
      "ranks was "
      "ended by SIGKILL; all ranks have been ended");
  EXPECT_NE(
      error_of(fake_keeper([](int) { ::_exit(4); })).find("exited with code 4; all"),
      std::string::npos);
}

TEST(AwaitProcs, EndsWhatADeadKeeperHasLeft) {
  TestPipe born;
  const KeeperLink link = fake_keeper([&](int socket) {
    ::setsid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(socket);
      while (true)
        ::pause();
    }
    (void)!::write(born.ends[1], &pid, sizeof pid);
    ::raise(SIGKILL);
  });
  pid_t left = 0;
  ASSERT_EQ(::read(born.ends[0], &left, sizeof left), ssize_t{sizeof left});
  error_of(link);
  EXPECT_TRUE(find_processes([left](pid_t pid, const ProcessStat&) {
                return pid == left;
              }).empty());
}

TEST(AwaitProcs, PassesSignalsToTheKeeper) {
  const SignalScope scope;
  const Outcome got = await_outcome(fake_keeper(
      [](int socket) {
        for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
          ::kill(::getppid(), signal);
          int received = 0;
          if (::recv(socket, &received, sizeof received, 0) != sizeof received ||
              received != signal)
            ::_exit(1);
        }
        send_outcome(socket, {.exit_code = 44});
      },
      scope.fd()));
  EXPECT_EQ(got.exit_code, 44);
}

bool is_blocked(int signal) {
  sigset_t set;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &set);
  return ::sigismember(&set, signal) == 1;
}

TEST(SignalScope, BlocksForItsTimeAlone) {
  for (const int signal : {SIGCONT, SIGUSR1, SIGUSR2}) {
    ASSERT_FALSE(is_blocked(signal));
    {
      const SignalScope scope;
      EXPECT_TRUE(is_blocked(signal));
      EXPECT_EQ(::sigismember(&scope.before().signals, signal), 0);
      ::raise(signal);  // too late to be passed on: it must not end us afterwards
    }
    EXPECT_FALSE(is_blocked(signal));
  }
}

volatile std::sig_atomic_t got_signal = 0;

TEST(SignalScope, AWishToStopThatCameTooLateReachesTheProgram) {
  ::signal(SIGTERM, [](int signal) { got_signal = signal; });
  {
    const SignalScope scope;
    ::raise(SIGTERM);
    EXPECT_EQ(got_signal, 0);
  }
  EXPECT_EQ(got_signal, SIGTERM);
  ::signal(SIGTERM, SIG_DFL);
}

TEST(SignalScope, LeavesAloneWhatItHasNotChanged) {
  {
    const SignalScope scope;
    ::signal(SIGPIPE, SIG_IGN);
  }
  EXPECT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_IGN);
}

TEST(SignalScope, LeavesIgnoredSignalsIgnored) {
  ::signal(SIGHUP, SIG_IGN);
  {
    const SignalScope scope;
    EXPECT_FALSE(is_blocked(SIGHUP));
    ::raise(SIGHUP);
    int byte = 0;
    EXPECT_EQ(::read(scope.fd(), &byte, sizeof byte), -1) << "it was taken for a wish";
  }
  ::signal(SIGHUP, SIG_DFL);
}

TEST(SignalScope, KeepsWhatWasBlockedBefore) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  { const SignalScope scope; }
  EXPECT_TRUE(is_blocked(SIGUSR2));
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace
}  // namespace trireme::launch
