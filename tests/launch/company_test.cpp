// A launcher's company, with the test as the launcher of two nodes.
#include "trireme/launch/company.h"

#include <sys/socket.h>

#include <gtest/gtest.h>

#include "launched.h"

namespace trireme::launch {
namespace {

TEST(OwnAddress, IsTold) {
  EXPECT_TRUE(is_own_address(net::Address::tcp("127.0.0.1", 29500)));
  EXPECT_TRUE(is_own_address(net::Address::tcp("localhost", 0)));
  EXPECT_FALSE(is_own_address(net::Address::tcp("192.0.2.1", 0)));
}

// One node: its company, and the socket where its keeper would be.
class TestLauncher {
 public:
  explicit TestLauncher(const CompanyPlan& plan) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0);
    company.emplace(plan, ProcessState::now());
  }
  ~TestLauncher() {
    company.reset();
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  // What the keeper is told, if something is there.
  std::optional<Word> next() {
    company->attend(ends_[0]);
    std::string packet(kMostPacket, '\0');
    const ssize_t got = ::recv(ends_[1], packet.data(), packet.size(), MSG_DONTWAIT);
    if (got <= 0)
      return std::nullopt;
    return decode_word(std::string_view(packet).substr(0, static_cast<size_t>(got)));
  }

  std::optional<Company> company;

 private:
  int ends_[2] = {-1, -1};
};

class CompanyRanks : public ::testing::Test {
 protected:
  CompanyPlan plan(int rank) const {
    CompanyPlan plan{
        .options = {.run_id = "job", .master_port = port_, .nodes = Nodes{}},
        .wanted_run_id = {},
        .security = net::Security::insecure_loopback(),
        .job_key = {}};
    plan.options.nodes->least = plan.options.nodes->most = 2;
    plan.options.nodes->rank = rank;
    return plan;
  }
  static void both(
      TestLauncher& one,
      TestLauncher& other,
      const std::function<void(const Word&, const Word&)>& check) {
    std::optional<Word> first, second;
    EXPECT_TRUE(within(kLong, [&] {
      first = first ? first : one.next();
      second = second ? second : other.next();
      return first && second;
    }));
    if (first && second)
      check(*first, *second);
  }

  const int port_ = quiet_port();
};

TEST_F(CompanyRanks, TwoNodesMeetAndEndTogether) {
  for (const int rank : {0, -1}) {
    TestLauncher zero(plan(rank)), one(plan(rank == 0 ? 1 : -1));
    const Word idle{.kind = Word::Kind::Idle};
    zero.company->told(idle);
    one.company->told(idle);
    both(zero, one, [](const Word& first, const Word& second) {
      EXPECT_EQ(first.kind, Word::Kind::Go);
      EXPECT_EQ(first.place.node, 0);
      EXPECT_EQ(second.place.node, 1);
      EXPECT_EQ(first.place.store, second.place.store);
    });
    zero.company->told(idle);
    one.company->told(idle);
    both(zero, one, [](const Word& first, const Word& second) {
      EXPECT_EQ(first.kind, Word::Kind::Over);
      EXPECT_EQ(second.kind, Word::Kind::Over);
      EXPECT_EQ(second.number, 0);
    });
  }
}

TEST_F(CompanyRanks, OneThatCannotGoOnTellsTheOther) {
  for (const bool first : {true, false}) {
    TestLauncher zero(plan(0)), one(plan(1));
    zero.company->told({.kind = Word::Kind::Idle});
    one.company->told({.kind = Word::Kind::Idle});
    both(zero, one, [](const Word&, const Word&) {});
    TestLauncher& leaving = first ? zero : one;
    TestLauncher& left = first ? one : zero;
    leaving.company->leave("no memory");
    leaving.company.reset();
    std::optional<Word> word;
    EXPECT_TRUE(within(kLong, [&] { return (word = left.next()).has_value(); }));
    ASSERT_TRUE(word);
    EXPECT_EQ(word->kind, Word::Kind::Lost);
  }
}

// The launcher of node 0 ends as soon as its own ranks have.
TEST_F(CompanyRanks, WhatTheLeadersNodeSaysLastReachesTheOther) {
  TestLauncher zero(plan(0)), one(plan(1));
  zero.company->told({.kind = Word::Kind::Idle});
  one.company->told({.kind = Word::Kind::Idle});
  both(zero, one, [](const Word&, const Word&) {});
  zero.company->told({.kind = Word::Kind::Stopping, .number = 2});
  zero.company.reset();
  std::optional<Word> word;
  EXPECT_TRUE(within(kLong, [&] { return (word = one.next()).has_value(); }));
  ASSERT_TRUE(word);
  EXPECT_EQ(word->kind, Word::Kind::Stopping);
  EXPECT_EQ(word->number, 2);
}

TEST_F(CompanyRanks, ALeaderMustBeAbleToListen) {
  CompanyPlan taken = plan(0);
  TestLauncher zero(taken);
  EXPECT_THROW(Company(taken, ProcessState::now()), InvalidArgument);
}

}  // namespace
}  // namespace trireme::launch
