// A member of a job, with the test as its leader and its keeper.
#include "trireme/launch/member.h"

#include <gtest/gtest.h>

#include "launched.h"
#include "trireme/launch/leader.h"

namespace trireme::launch {
namespace {

// Who listens, and keeps what comes.
class TestLeader : public net::Receiver {
 public:
  TestLeader()
      : node_(
            {.name = kLeaderName,
             .job = kLaunchJob,
             .security = net::Security::insecure_loopback(),
             .listen = {net::Address::tcp("127.0.0.1", 0)}},
            *this) {}
  ~TestLeader() override { node_.close(); }

  void received(const net::Peer& peer, net::InMessage message) override {
    words_.put({peer, decode_word(message.envelope.header)});
  }
  // The next word; the peer that said it is kept.
  Word next() {
    EXPECT_TRUE(within(kLong, [this] {
      for (auto& one : words_.take())
        come_.push_back(std::move(one));
      return !come_.empty();
    }));
    if (come_.empty())
      return {.kind = Word::Kind::Over};
    const auto [peer, word] = come_.front();
    come_.erase(come_.begin());
    peer_ = peer;
    return word;
  }
  void say(const Word& word) { peer_.send(node_message(word)); }
  void leave() { peer_.close(); }
  net::Address address() const { return node_.addresses().front(); }

 private:
  Mailbox<std::pair<net::Peer, Word>> words_;
  std::vector<std::pair<net::Peer, Word>> come_;
  net::Peer peer_;
  net::Node node_;
};

class MemberRanks : public ::testing::Test {
 protected:
  static MemberOptions options(
      const net::Address& leader, std::chrono::milliseconds patience = kLong) {
    return {
        .card = {.wish = 1, .ranks = 3},
        .leader = leader,
        .security = net::Security::insecure_loopback(),
        .patience = patience};
  }
  static Word told(Member& member) {
    std::vector<Word> words;
    EXPECT_TRUE(within(kLong, [&] {
      words = member.take();
      return !words.empty();
    }));
    return words.empty() ? Word{} : words.front();
  }
  // Joins; what the leader hears.
  Word join() {
    member_.told({.kind = Word::Kind::Idle});
    pollfd wait{.fd = member_.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&wait, 1, static_cast<int>(kLong.count())), 1);
    EXPECT_TRUE(member_.take().empty()) << "nothing for the keeper";
    return leader_.next();
  }

  TestLeader leader_;
  Member member_{options(leader_.address())};
};

TEST_F(MemberRanks, JoinsWithItsCardWhenItsKeeperAsks) {
  const Word word = join();
  EXPECT_EQ(word.kind, Word::Kind::Join);
  EXPECT_EQ(word.card.ranks, 3);
  EXPECT_EQ(word.card.wish, 1);
}

TEST_F(MemberRanks, CarriesWordsBothWays) {
  join();
  leader_.say({.kind = Word::Kind::Passed, .number = 10});
  const Word word = told(member_);
  EXPECT_EQ(word.kind, Word::Kind::Passed);
  EXPECT_EQ(word.number, 10);
  member_.told({.kind = Word::Kind::Idle});
  EXPECT_EQ(leader_.next().kind, Word::Kind::Idle);
  member_.leave("no memory");
  const Word last = leader_.next();
  EXPECT_EQ(last.kind, Word::Kind::Lost);
  EXPECT_EQ(last.text, "no memory");
}

TEST_F(MemberRanks, SaysThatItIsThere) {
  join();
  leader_.say({.kind = Word::Kind::Here});
  EXPECT_EQ(leader_.next().kind, Word::Kind::Here);
  EXPECT_TRUE(member_.take().empty()) << "its keeper need not know";
}

TEST_F(MemberRanks, ALeaderThatEndsIsLost) {
  join();
  leader_.leave();
  const Word word = told(member_);
  EXPECT_EQ(word.kind, Word::Kind::Lost);
  EXPECT_EQ(word.number, 1) << "nothing follows";
  EXPECT_NE(word.text.find(leader_.address().text()), std::string::npos) << word.text;
}

TEST_F(MemberRanks, ALeaderMayEndAfterTheJob) {
  join();
  leader_.say({.kind = Word::Kind::Over});
  EXPECT_EQ(told(member_).kind, Word::Kind::Over);
  leader_.leave();
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(member_.take().empty());
}

TEST_F(MemberRanks, GivesUpWhereNobodyListens) {
  Member alone(options(net::Address::tcp("127.0.0.1", 1), 300ms));
  alone.told({.kind = Word::Kind::Idle});
  const Word word = told(alone);
  EXPECT_EQ(word.kind, Word::Kind::Lost);
  EXPECT_TRUE(word.text.starts_with(
      "expected node 0 to listen at tcp://127.0.0.1:1 within 0.3 s, got no answer ("))
      << word.text;
}

TEST_F(MemberRanks, ThatEndsBeforeItHasJoinedWaitsForNobody) {
  const auto start = std::chrono::steady_clock::now();
  {
    Member alone(options(net::Address::tcp("127.0.0.1", 1), kLong));
    alone.told({.kind = Word::Kind::Idle});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

}  // namespace
}  // namespace trireme::launch
