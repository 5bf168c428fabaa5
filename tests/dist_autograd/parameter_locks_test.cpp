#include "trireme/dist_autograd/parameter_locks.h"

#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::dist_autograd {
namespace {

const auto kSoon = [] { return Deadline::after(std::chrono::milliseconds(50)); };

TEST(ParameterLocks, AreSharedByThoseOfOneParameter) {
  ParameterLocks locks;
  const at::Tensor a = at::zeros({1});
  const at::Tensor b = at::zeros({1});
  const auto first = locks.of({a, b});
  const auto second = locks.of({b, a});
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first, second);  // in one order
  EXPECT_EQ(locks.of({a}).size(), 1U);
  EXPECT_NE(locks.of({a}), locks.of({b}));
}

TEST(ParameterLocksRanks, OneHoldsThemAtATime) {
  ParameterLocks locks;
  const at::Tensor a = at::zeros({1});
  const at::Tensor b = at::zeros({1});
  const auto held = std::make_unique<LocksHeld>(locks.of({a}), kSoon());
  std::thread([&] {
    const LocksHeld other(locks.of({b}), kSoon());
    EXPECT_TRUE(testing::contains(
        testing::message_of<TimeoutError>(
            [&] { const LocksHeld both(locks.of({a}), kSoon()); }),
        "no other optimizer steps within 50 ms"));
  }).join();
}

TEST(ParameterLocksRanks, WhoWaitsGetsThem) {
  ParameterLocks locks;
  const at::Tensor a = at::zeros({1});
  int count = 0;
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) {
      const LocksHeld held(locks.of({a}), Deadline::after(std::chrono::seconds(20)));
      ++count;
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(count, 4000);
}

}  // namespace
}  // namespace trireme::dist_autograd
