// The handle of an operation: errors reach whoever waits, or else the log.
#include "trireme/comm/work.h"

#include <thread>

#include <gtest/gtest.h>

#include "scopes.h"
#include "trireme/comm/work_state.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::LogScope;
using testing::message_of;
using Lines = std::vector<std::string>;

std::exception_ptr leak() {
  return std::make_exception_ptr(TimeoutError("[comm] a leak"));
}

TEST(Work, IsFinishedWhenNothingStandsBehindIt) {
  const Work work;
  EXPECT_TRUE(work.test());
  work.wait();
}

TEST(Work, IsFinishedWhenItsStateIs) {
  const auto state = std::make_shared<Work::State>();
  const Work work(state), copy = work;
  EXPECT_FALSE(work.test());
  state->finish(nullptr);
  EXPECT_TRUE(work.test() && copy.test());
  work.wait();
  copy.wait();
}

TEST(Work, WaitsForAnotherThread) {
  const auto state = std::make_shared<Work::State>();
  const Work work(state);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    state->finish(nullptr);
  });
  work.wait();
  EXPECT_TRUE(work.test());
  other.join();
}

TEST(Work, RethrowsTheErrorToEveryoneWhoWaits) {
  const auto state = std::make_shared<Work::State>();
  const Work work(state), copy = work;
  state->finish(leak());
  EXPECT_TRUE(work.test());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(message_of<TimeoutError>([&] { work.wait(); }), "[comm] a leak");
    EXPECT_EQ(message_of<TimeoutError>([&] { copy.wait(); }), "[comm] a leak");
  }
}

TEST(Work, LogsAnErrorThatNobodyWaitedForOnce) {
  const LogScope log;
  {
    const auto state = std::make_shared<Work::State>();
    const Work work(state), copy = work;
    state->finish(leak());
    EXPECT_TRUE(work.test());  // to look is not to wait
    EXPECT_EQ(log.lines(), Lines{});
  }
  EXPECT_EQ(
      log.lines(),
      Lines{
          "[trireme comm] error: nobody waited for an operation that failed: [comm] a "
          "leak"});
}

TEST(Work, LogsAnErrorThatIsNoException) {
  const LogScope log;
  {
    const auto state = std::make_shared<Work::State>();
    state->finish(std::make_exception_ptr(42));
  }
  EXPECT_EQ(
      log.lines(),
      Lines{"[trireme comm] error: nobody waited for an operation that failed"});
}

TEST(Work, LogsNothingOnceSomebodyWaited) {
  const LogScope log;
  {
    const auto state = std::make_shared<Work::State>();
    const Work work(state);
    state->finish(std::make_exception_ptr(42));
    EXPECT_THROW(work.wait(), int);
  }
  { std::make_shared<Work::State>()->finish(nullptr); }
  { const auto unfinished = std::make_shared<Work::State>(); }
  EXPECT_EQ(log.lines(), Lines{});
}

}  // namespace
}  // namespace trireme::comm
