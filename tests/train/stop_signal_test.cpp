#include "trireme/train/stop_signal.h"

#include <csignal>

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

TEST(StopSignal, BothSignalsRaiseIt) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const StopSignal stop;
    EXPECT_FALSE(stop.raised());
    std::raise(signal);
    EXPECT_TRUE(stop.raised());
  }
  const StopSignal again;
  EXPECT_FALSE(again.raised());
}

TEST(StopSignal, GivesTheSignalsBack) {
  struct sigaction before {};
  struct sigaction after {};
  ::sigaction(SIGUSR1, nullptr, &before);
  { const StopSignal stop; }
  ::sigaction(SIGUSR1, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace trireme::train
