#include "trireme/rpc/peer_counters.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/rpc/protocol.h"

namespace trireme::rpc {

using std::chrono::microseconds;

TEST(PeerCounters, CountCallsByTheirEnds) {
  PeerCounters counters;
  for (int i = 0; i < 10; ++i)
    counters.sent();
  counters.ended(Status::Value, microseconds(10));
  counters.ended(Status::Value, microseconds(20));
  counters.ended(Status::Late, microseconds(5000));
  for (const Status status :
       {Status::Failed,
        Status::Refused,
        Status::Full,
        Status::Lost,
        Status::Cancelled,
        Status::Cancelled})
    counters.ended(status, microseconds(1));
  const auto now = counters.figures();
  EXPECT_EQ(now.sent, 10u);
  EXPECT_EQ(now.returned(), 2u);
  EXPECT_EQ(now.failed(), 7u);
  EXPECT_EQ(now.of(Status::Late), 1u);
  EXPECT_EQ(now.of(Status::Cancelled), 2u);
  EXPECT_EQ(now.waiting(), 1u);
  // Failures say nothing of how fast the other is.
  EXPECT_EQ(counters.latency().count(), 2u);
  EXPECT_EQ(counters.latency().longest(), microseconds(20));
}

TEST(PeerCounters, CountWhatTheOtherWants) {
  PeerCounters counters;
  counters.received();
  counters.received();
  counters.answered();
  counters.bytes_in(100);
  counters.bytes_in(11);
  counters.bytes_out(7);
  const auto now = counters.figures();
  EXPECT_EQ(now.received, 2u);
  EXPECT_EQ(now.answered, 1u);
  EXPECT_EQ(now.running(), 1u);
  EXPECT_EQ(now.bytes_in, 111u);
  EXPECT_EQ(now.bytes_out, 7u);
}

TEST(PeerCounters, AddUp) {
  PeerCounters a, b;
  a.sent();
  a.ended(Status::Lost, microseconds(1));
  a.bytes_out(5);
  b.sent();
  b.received();
  b.answered();
  b.bytes_in(6);
  auto both = a.figures();
  both += b.figures();
  EXPECT_EQ(both.sent, 2u);
  EXPECT_EQ(both.of(Status::Lost), 1u);
  EXPECT_EQ(both.waiting(), 1u);
  EXPECT_EQ(both.received, 1u);
  EXPECT_EQ(both.answered, 1u);
  EXPECT_EQ(both.bytes_out, 5u);
  EXPECT_EQ(both.bytes_in, 6u);
}

TEST(PeerCounters, ReadWell) {
  PeerCounters counters;
  EXPECT_EQ(
      counters.text(),
      "0 calls (none), 0 received (0 running), 0 bytes out, 0 bytes in; returned "
      "never");
  for (int i = 0; i < 1200; ++i)
    counters.sent();
  for (int i = 0; i < 1100; ++i)
    counters.ended(Status::Value, microseconds(100));
  counters.ended(Status::Full, microseconds(1));
  counters.received();
  counters.bytes_out(2048);
  EXPECT_EQ(
      counters.text(),
      "1,200 calls (1,100 returned, 1 full, 99 waiting), 1 received (1 running), 2.0 "
      "KiB "
      "out, 0 bytes in; returned 1,100 times, median 100 us, 90 % within 100 us, 99 % "
      "within 100 us, longest 100 us");
}

TEST(PeerCounters, ThreadsLoseNothing) {
  PeerCounters counters;
  std::vector<std::thread> threads;
  constexpr int kEach = 10'000;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) {
        counters.sent();
        counters.ended(Status::Value, microseconds(1));
      }
    });
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(counters.figures().sent, 4u * kEach);
  EXPECT_EQ(counters.figures().returned(), 4u * kEach);
  EXPECT_EQ(counters.figures().waiting(), 0u);
}

}  // namespace trireme::rpc
