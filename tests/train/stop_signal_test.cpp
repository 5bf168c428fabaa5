#include "trireme/train/stop_signal.h"

#include <csignal>

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

TEST(StopSignal, BothSignalsRaiseIt) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
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
  for (const int signal : {SIGTERM, SIGUSR1})
    EXPECT_EXIT(
        {
          const StopSignal stop(75);
          std::raise(signal);
        },
        ::testing::ExitedWithCode(75),
        "");
}

TEST(StopSignal, GivesTheSignalsBack) {
  struct sigaction before {};
  struct sigaction after {};
  ::sigaction(SIGUSR1, nullptr, &before);
  { const StopSignal stop(75); }
  ::sigaction(SIGUSR1, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace trireme::train
