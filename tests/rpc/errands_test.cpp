#include "trireme/rpc/errands.h"

#include <atomic>
#include <future>
#include <stdexcept>

#include <gtest/gtest.h>

namespace trireme::rpc {

using namespace std::chrono_literals;

TEST(ErrandsRanks, RunInTheOrderOfTheirTimes) {
  Errands errands(1);
  std::vector<int> order;
  std::promise<void> done;
  const auto now = Errands::Clock::now();
  errands.at(now + 60ms, [&] {
    order.push_back(3);
    done.set_value();
  });
  errands.at(now + 40ms, [&] { order.push_back(2); });
  errands.at(now + 20ms, [&] { order.push_back(1); });
  done.get_future().get();
  EXPECT_GE(Errands::Clock::now(), now + 60ms);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(ErrandsRanks, ASlowOneDoesNotHoldUpTheOthers) {
  Errands errands(2);
  std::promise<void> release, passed;
  const auto released = release.get_future().share();
  errands.at(Errands::Clock::now(), [released] { released.wait(); });
  errands.at(Errands::Clock::now(), [&] { passed.set_value(); });
  EXPECT_EQ(passed.get_future().wait_for(10s), std::future_status::ready);
  release.set_value();
}

TEST(ErrandsRanks, AnIdleThreadTakesWhatABusyOneCannot) {
  for (int round = 0; round < 20; ++round) {
    Errands errands(2);
    const auto now = Errands::Clock::now();
    std::promise<void> release, passed, both[2];
    const auto released = release.get_future().share();
    // Two threads, both idle.
    for (int i = 0; i < 2; ++i)
      errands.at(now, [&both, i] {
        both[i].set_value();
        both[1 - i].get_future().wait_for(10s);
      });
    std::this_thread::sleep_for(1ms);
    for (int i = 0; i < 3; ++i)
      errands.at(Errands::Clock::now() + 1ms, [] {});
    errands.at(Errands::Clock::now() + 1ms, [released] { released.wait_for(10s); });
    errands.at(Errands::Clock::now() + 1ms, [&] { passed.set_value(); });
    const bool in_time = passed.get_future().wait_for(5s) == std::future_status::ready;
    release.set_value();
    ASSERT_TRUE(in_time) << "round " << round;
  }
}

TEST(ErrandsRanks, OneThatThrowsIsNotTheLast) {
  Errands errands(1);
  std::promise<void> passed;
  errands.at(Errands::Clock::now(), [] { throw std::runtime_error("test"); });
  errands.at(Errands::Clock::now(), [&] { passed.set_value(); });
  EXPECT_EQ(passed.get_future().wait_for(10s), std::future_status::ready);
}

TEST(ErrandsRanks, ClosingWaitsForWhatHasBegunAndForgetsTheRest) {
  Errands errands(1);
  std::promise<void> begun;
  std::atomic<int> count{0};
  errands.at(Errands::Clock::now(), [&] {
    begun.set_value();
    std::this_thread::sleep_for(50ms);
    ++count;
  });
  errands.at(Errands::Clock::now() + 1h, [&] { count += 100; });
  begun.get_future().get();
  errands.close();
  EXPECT_EQ(count, 1);
  errands.at(Errands::Clock::now(), [&] { count += 100; });
  errands.close();
  EXPECT_EQ(count, 1);
}

}  // namespace trireme::rpc
