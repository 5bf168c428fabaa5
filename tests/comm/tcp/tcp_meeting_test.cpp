#include "trireme/comm/tcp/tcp_meeting.h"

#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/net/memory_store.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;

/// A place in which ranks meet.
class TcpMeetingTest : public ::testing::Test {
 protected:
  TcpMeeting meeting(
      int rank, int size, TcpMeeting::Check check = [] {}) const {
    return {net::PrefixStore(place_, store_), rank, size, std::move(check)};
  }
  const std::shared_ptr<net::Store> store_ = std::make_shared<net::MemoryStore>();
  std::string place_ = "here/";
};

TEST_F(TcpMeetingTest, AllLearnWhereAllAre) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([this, rank] {
      TcpMeeting all = meeting(rank, 3);
      const auto limit = Deadline::after(std::chrono::seconds(20));
      EXPECT_EQ(
          all.trade_addresses(std::to_string(rank), limit),
          (std::vector<std::string>{"0", "1", "2"}));
      all.pass(limit);
      EXPECT_FALSE(all.given_up());
    });
  for (std::thread& rank : ranks)
    rank.join();
}

TEST_F(TcpMeetingTest, WhoGivesUpIsNotWaitedFor) {
  std::thread patient([this] {
    TcpMeeting all = meeting(1, 3);
    EXPECT_THROW(
        all.trade_addresses("b", Deadline::after(std::chrono::seconds(20))),
        TcpMeeting::GivenUp);
  });
  TcpMeeting all = meeting(0, 3);
  EXPECT_THROW(
      all.trade_addresses("a", Deadline::after(milliseconds(100))), TimeoutError);
  EXPECT_TRUE(all.given_up());
  const auto start = std::chrono::steady_clock::now();
  patient.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(TcpMeetingTest, ItsCheckEndsAWait) {
  TcpMeeting all =
      meeting(0, 2, [] { throw PeerError(1, "[comm] expected rank 1, got none; go"); });
  EXPECT_THROW(
      all.trade_addresses("a", Deadline::after(std::chrono::seconds(20))), PeerError);
}

// One comes just when the other's time is over.
TEST_F(TcpMeetingTest, AllPassOrNone) {
  int passed = 0;
  for (int round = 0; round < 60; ++round) {
    place_ = text("round ", round, "/");
    const auto passes = [this](int rank, milliseconds time) {
      try {
        meeting(rank, 2).pass(Deadline::after(time));
        return true;
      } catch (const TimeoutError&) {
      } catch (const TcpMeeting::GivenUp&) {
      }
      return false;
    };
    bool late = false;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(3000 + 70 * round));
      late = passes(1, milliseconds(300));
    });
    const bool first = passes(0, milliseconds(5));
    other.join();
    EXPECT_EQ(first, late) << "round " << round;
    passed += first;
  }
  EXPECT_GT(passed, 0);
  EXPECT_LT(passed, 60);
}

}  // namespace
}  // namespace trireme::comm
