#include "trireme/train/stop_signal.h"

#include <csignal>

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

TEST(StopSignal, EverySignalRaisesIt) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    const StopSignal stop(75);
    stop.defer();
    EXPECT_FALSE(stop.raised());
    std::raise(signal);
    EXPECT_TRUE(stop.raised());
  }
  const StopSignal again(75);
  EXPECT_FALSE(again.raised());
}

TEST(StopSignalDeath, LeavesAtOnceBeforeItIsDeferred) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT})
    EXPECT_EXIT(
        {
          const StopSignal stop(75);
          std::raise(signal);
        },
        ::testing::ExitedWithCode(75),
        "");
}

TEST(StopSignalDeath, ASecondCtrlCLeavesAtOnce) {
  for (const int first : {SIGTERM, SIGINT})
    EXPECT_EXIT(
        {
          const StopSignal stop(75);
          stop.defer("stopping soon\n");
          std::raise(first);
          std::raise(SIGINT);
        },
        ::testing::ExitedWithCode(128 + SIGINT),
        first == SIGINT ? "^stopping soon\n$" : "^$");
}

TEST(StopSignal, OtherSignalsMayComeTwice) {
  const StopSignal stop(75);
  stop.defer("stopping soon\n");
  ::testing::internal::CaptureStderr();
  for (const int signal : {SIGTERM, SIGTERM, SIGUSR1})
    std::raise(signal);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(stop.raised());
}

TEST(StopSignal, LeavesAnIgnoredCtrlCAlone) {
  struct sigaction before {};
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGINT, &ignored, &before);
  {
    const StopSignal stop(75);
    std::raise(SIGINT);  // would leave otherwise
    stop.defer();
    std::raise(SIGINT);
    EXPECT_FALSE(stop.raised());
  }
  ::sigaction(SIGINT, &before, nullptr);
}

TEST(StopSignal, GivesTheSignalsBack) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    struct sigaction before {};
    struct sigaction after {};
    ::sigaction(signal, nullptr, &before);
    { const StopSignal stop(75); }
    ::sigaction(signal, nullptr, &after);
    EXPECT_EQ(before.sa_handler, after.sa_handler);
  }
}

}  // namespace
}  // namespace trireme::train
