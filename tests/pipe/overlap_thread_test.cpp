#include "trireme/pipe/overlap_thread.h"

#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "trireme/memory/account.h"

namespace trireme::pipe {
namespace {

TEST(OverlapThreadRanks, RunsBothAtOnceAgainAndAgain) {
  OverlapThread second;
  std::atomic<int> here{0};
  std::atomic<int> there{0};
  for (int i = 1; i <= 200; ++i) {
    // Each waits for the other: one after the other would never end.
    const auto meet = [i](std::atomic<int>& mine, std::atomic<int>& other) {
      mine = i;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (other != i && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
      EXPECT_EQ(other, i);
    };
    second.run_both([&] { meet(here, there); }, [&] { meet(there, here); });
  }
}

TEST(OverlapThreadRanks, SleepsAndWakes) {
  OverlapThread second;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    bool ran = false;
    second.run_both(
        [] {},
        [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          ran = true;
        });
    EXPECT_TRUE(ran);
  }
}

TEST(OverlapThreadRanks, HasTheCallersSettings) {
  OverlapThread second;
  const at::NoGradGuard no_grad;
  bool grad = true;
  int threads = 0;
  second.run_both(
      [] {},
      [&] {
        grad = c10::GradMode::is_enabled();
        threads = at::get_num_threads();
      });
  EXPECT_FALSE(grad);
  EXPECT_EQ(threads, at::get_num_threads());
}

TEST(OverlapThreadRanks, ThrowsWhatEitherHalfThrew) {
  OverlapThread second;
  const auto fail = [](const char* what) {
    return [what] { throw std::runtime_error(what); };
  };
  const auto what = [&](const std::function<void()>& a,
                        const std::function<void()>& b) {
    try {
      second.run_both(a, b);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(what(fail("here"), [] {}), "here");
  EXPECT_EQ(what([] {}, fail("there")), "there");
  EXPECT_EQ(what(fail("here"), fail("there")), "here");
  EXPECT_EQ(what([] {}, [] {}), "nothing");
}

}  // namespace
}  // namespace trireme::pipe
