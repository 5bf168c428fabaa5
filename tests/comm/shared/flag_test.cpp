#include "trireme/comm/shared/flag.h"

#include <atomic>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/comm/wait_budget.h"
#include "trireme/core/shared_value.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;

class NoTrouble : public WaitGuard {
 public:
  std::exception_ptr trouble() const override { return nullptr; }
};

class Trouble : public WaitGuard {
 public:
  std::exception_ptr trouble() const override {
    return std::make_exception_ptr(std::runtime_error("sinking"));
  }
};

/// Posts while the waiter looks at its guard: as a peer that answers and then leaves.
class PostThenTrouble : public WaitGuard {
 public:
  explicit PostThenTrouble(Flag& flag) : flag_(flag) {}
  std::exception_ptr trouble() const override {
    flag_.post(1);
    return std::make_exception_ptr(std::runtime_error("left"));
  }

 private:
  Flag& flag_;
};

Deadline flag_soon() {
  return Deadline::after(milliseconds(20));
}

TEST(Flag, IsReachedAcrossTheWrapAround) {
  Flag flag;
  flag.post(0xfffffffe);
  EXPECT_TRUE(flag.reached(0xfffffff0));
  EXPECT_FALSE(flag.reached(0xffffffff));
  flag.post(3);  // five steps later
  EXPECT_TRUE(flag.reached(0xffffffff));
  EXPECT_FALSE(flag.reached(4));
}

TEST(Flag, WaitsUntilTheDeadlineAndNotLonger) {
  Flag flag;
  const auto start = Deadline::Clock::now();
  EXPECT_FALSE(wait_until(flag, 1, {}, NoTrouble(), flag_soon()));
  EXPECT_GE(Deadline::Clock::now() - start, milliseconds(19));
  EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(2));
}

TEST(Flag, ThrowsTheTroubleOfItsGuard) {
  Flag flag;
  EXPECT_THROW(
      wait_until(flag, 1, {}, Trouble(), Deadline::after(std::chrono::seconds(5))),
      std::runtime_error);
}

TEST(Flag, IsNotDisturbedByTroubleOnceItIsReached) {
  Flag flag;
  const PostThenTrouble guard(flag);
  EXPECT_TRUE(wait_until(flag, 1, {}, guard, Deadline::after(std::chrono::seconds(5))));
  EXPECT_TRUE(wait_until(flag, 1, {}, Trouble(), flag_soon()));
}

TEST(WaitBudget, ChargesWhatPassesBetweenLooks) {
  WaitBudget budget(Deadline::after(std::chrono::seconds(60)));
  auto now = Deadline::Clock::now();
  budget.charge(now);
  const auto before = budget.left();
  EXPECT_TRUE(budget.charge(now += milliseconds(20)));
  EXPECT_EQ(before - budget.left(), milliseconds(20));
  // A stop of an hour, or a clock that went back.
  EXPECT_TRUE(budget.charge(now += std::chrono::hours(1)));
  EXPECT_EQ(before - budget.left(), milliseconds(20) + WaitBudget::kMostPerLook);
  EXPECT_TRUE(budget.charge(now -= milliseconds(5)));
  EXPECT_EQ(before - budget.left(), milliseconds(20) + WaitBudget::kMostPerLook);
  int looks = 0;
  while (budget.charge(now += milliseconds(50)) && looks < 10000)
    ++looks;
  EXPECT_GE(looks, 1190);
  EXPECT_LE(looks, 1200);
  EXPECT_EQ(budget.left().count(), 0);
}

TEST(WaitBudget, GivesALittleToWhoBeginsLate) {
  const Deadline passed = Deadline::after(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(3));
  EXPECT_EQ(WaitBudget(passed).left(), milliseconds(1));
  EXPECT_EQ(WaitBudget(Deadline::after(milliseconds(-1))).left().count(), 0);
}

// Ctrl-Z and fg: a process that was stopped for longer than its deadline goes on
// waiting for as long as it had left.
TEST(FlagRanks, TimeDuringWhichTheProcessWasStoppedDoesNotCount) {
  const SharedValue<Flag> flag;
  testing::Processes processes;
  const pid_t child = processes.start([&flag] {
    const Deadline deadline = Deadline::after(milliseconds(1500));
    // Two steps of one call: the second begins when the deadline has long passed.
    return wait_until(*flag, 1, {}, NoTrouble(), deadline) &&
                   wait_until(*flag, 2, {}, NoTrouble(), deadline)
               ? 0
               : 7;
  });
  while (flag->sleepers.load() == 0)
    std::this_thread::yield();
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  std::this_thread::sleep_for(milliseconds(2000));
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  std::this_thread::sleep_for(milliseconds(150));
  flag->post(1);
  std::this_thread::sleep_for(milliseconds(150));
  flag->post(2);
  EXPECT_EQ(processes.wait(std::chrono::seconds(20))[0].exit_code, 0);
}

TEST(FlagRanks, WakesEverySleeperAndSpinner) {
  constexpr std::chrono::microseconds kLook{500};
  for (const WaitPolicy& policy :
       {WaitPolicy{}, WaitPolicy{.spin = kLook}, WaitPolicy{.yield = kLook}}) {
    Flag flag;
    std::atomic<int> woken{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; ++i)
      waiters.emplace_back([&] {
        for (uint32_t step = 1; step <= 50; ++step)
          if (wait_until(
                  flag,
                  step,
                  policy,
                  NoTrouble(),
                  Deadline::after(std::chrono::seconds(20))))
            ++woken;
      });
    for (uint32_t step = 1; step <= 50; ++step) {
      if (step % 10 == 0)
        std::this_thread::sleep_for(milliseconds(1));
      flag.post(step);
    }
    for (std::thread& waiter : waiters)
      waiter.join();
    EXPECT_EQ(woken.load(), 200);
    EXPECT_EQ(flag.sleepers.load(), 0U);
  }
}

TEST(FlagRanks, CountsEveryAdditionOfManyThreads) {
  Flag flag;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k)
        flag.add_one();
    });
  EXPECT_TRUE(wait_until(
      flag, 4000, {}, NoTrouble(), Deadline::after(std::chrono::seconds(20))));
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(flag.value.load(), 4000U);
}

// What was written before a post is there for whoever sees it, in both directions.
TEST(FlagRanks, OrdersWhatWasWrittenBefore) {
  Flag ping, pong;
  uint64_t shared = 0;
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  std::thread other([&] {
    for (uint32_t i = 1; i <= 2000; ++i) {
      wait_until(ping, i, {}, NoTrouble(), deadline);
      shared = shared * 3 + 1;
      pong.post(i);
    }
  });
  uint64_t expected = 0;
  for (uint32_t i = 1; i <= 2000; ++i) {
    shared += i;
    expected = (expected + i) * 3 + 1;
    ping.post(i);
    wait_until(pong, i, {}, NoTrouble(), deadline);
    EXPECT_EQ(shared, expected);
  }
  other.join();
}

}  // namespace
}  // namespace trireme::comm
