#include "trireme/rpc/latency.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using trireme::testing::message_of;

}  // namespace

TEST(Latency, IsEmptyAtFirst) {
  const Latency latency;
  EXPECT_EQ(latency.count(), 0u);
  EXPECT_EQ(latency.within(0.5).count(), 0);
  EXPECT_EQ(latency.mean().count(), 0);
  EXPECT_EQ(latency.longest().count(), 0);
  EXPECT_EQ(latency.text(), "never");
}

TEST(Latency, IsThreePercentExactFromEndToEnd) {
  for (double ns = 100; ns <= 1e12; ns *= 1.013) {
    Latency latency;
    const auto exact = static_cast<std::int64_t>(ns);
    latency.add(nanoseconds(exact));
    latency.add(seconds(2000));  // so that the longest does not help
    const auto within = latency.within(0.5).count();
    ASSERT_GE(within, exact);
    ASSERT_LE(static_cast<double>(within), static_cast<double>(exact) * 1.0323);
  }
}

TEST(Latency, BucketsGrow) {
  std::int64_t former = 0;
  for (std::int64_t ns = 100; ns < 5000; ++ns) {
    Latency latency;
    latency.add(nanoseconds(ns));
    latency.add(seconds(2000));
    const auto within = latency.within(0.5).count();
    ASSERT_GE(within, former);
    former = within;
  }
}

TEST(Latency, KnowsTheSharesOfAThousand) {
  Latency latency;
  for (int i = 1; i <= 1000; ++i)
    latency.add(nanoseconds(1000 * i));
  EXPECT_EQ(latency.count(), 1000u);
  EXPECT_EQ(latency.mean().count(), 500'500);
  EXPECT_EQ(latency.longest().count(), 1'000'000);
  for (const double share : {0.1, 0.5, 0.9, 0.99}) {
    const double exact = 1'000'000 * share;
    EXPECT_GE(static_cast<double>(latency.within(share).count()), exact - 1);
    EXPECT_LE(static_cast<double>(latency.within(share).count()), exact * 1.033);
  }
  EXPECT_EQ(latency.within(1), latency.longest());
  EXPECT_LT(latency.within(0).count(), 1100);
}

TEST(Latency, TakesWhatLiesOutside) {
  Latency latency;
  latency.add(nanoseconds(-5));
  latency.add(nanoseconds(0));
  latency.add(nanoseconds(99));
  EXPECT_EQ(latency.within(1).count(), 99);
  latency.add(seconds(100'000));
  EXPECT_EQ(latency.count(), 4u);
  EXPECT_EQ(latency.longest(), seconds(100'000));
  EXPECT_GE(latency.within(1), seconds(1000));
}

TEST(Latency, RefusesAShareThatIsNone) {
  const Latency latency;
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { latency.within(99); }),
      "[rpc] expected a share from 0 to 1, got 99; write 0.99 for 99 %");
  EXPECT_THROW(latency.within(-0.1), InvalidArgument);
  EXPECT_THROW(
      latency.within(std::numeric_limits<double>::quiet_NaN()), InvalidArgument);
}

TEST(Latency, MergesOthers) {
  Latency a, b;
  for (int i = 0; i < 90; ++i)
    a.add(nanoseconds(1000));
  for (int i = 0; i < 10; ++i)
    b.add(nanoseconds(100'000));
  a.merge(b);
  a.merge(Latency());
  EXPECT_EQ(a.count(), 100u);
  EXPECT_EQ(a.mean().count(), 10'900);
  EXPECT_LT(a.within(0.9).count(), 1100);
  EXPECT_EQ(a.within(0.91).count(), 100'000);
  EXPECT_EQ(b.count(), 10u);
}

TEST(Latency, ThreadsLoseNothing) {
  Latency latency;
  std::vector<std::thread> threads;
  constexpr int kEach = 20'000;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&latency, i] {
      for (int k = 0; k < kEach; ++k)
        latency.add(nanoseconds(200 + 1000 * i + k % 100));
    });
  while (latency.count() < kEach)
    EXPECT_LE(latency.within(0.99).count(), 3400);
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(latency.count(), 4u * kEach);
  EXPECT_EQ(latency.longest().count(), 3299);
}

TEST(Latency, ReadsWell) {
  Latency latency;
  latency.add(nanoseconds(1'500'000));
  EXPECT_EQ(
      latency.text(),
      "1 time, median 1.50 ms, 90 % within 1.50 ms, 99 % within 1.50 ms, longest 1.50 "
      "ms");
  for (int i = 0; i < 1999; ++i)
    latency.add(nanoseconds(128));
  EXPECT_EQ(
      latency.text(),
      "2,000 times, median 131 ns, 90 % within 131 ns, 99 % within 131 ns, longest "
      "1.50 ms");
}

TEST(Latency, TimesHaveThreeDigits) {
  EXPECT_EQ(time_text(nanoseconds(0)), "0 ns");
  EXPECT_EQ(time_text(nanoseconds(999)), "999 ns");
  EXPECT_EQ(time_text(nanoseconds(1000)), "1.00 us");
  EXPECT_EQ(time_text(nanoseconds(9996)), "10.0 us");
  EXPECT_EQ(time_text(nanoseconds(99'960)), "100 us");
  EXPECT_EQ(time_text(nanoseconds(999'600)), "1.00 ms");
  EXPECT_EQ(time_text(seconds(12)), "12.0 s");
  EXPECT_EQ(time_text(seconds(5000)), "5000 s");
}

}  // namespace trireme::rpc
