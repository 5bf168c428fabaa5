// A leader, with the tests as its nodes.
#include "trireme/launch/leader.h"

#include <condition_variable>
#include <deque>
#include <mutex>

#include <gtest/gtest.h>

#include "launched.h"
#include "trireme/net/store_client.h"

namespace trireme::launch {
namespace {

// A node that says what the test says, and keeps what it is told.
class TestNode : public net::Receiver {
 public:
  TestNode(
      const Leader& leader,
      const net::Security& security,
      const std::string& name = "node")
      : node_({.name = name, .job = kLaunchJob, .security = security}, *this),
        peer_(node_.connect(kLeaderName, leader.address(), Deadline::after(kLong))) {}
  ~TestNode() override { node_.close(); }

  void received(const net::Peer&, net::InMessage message) override {
    const std::lock_guard lock(mutex_);
    words_.push_back(decode_word(message.envelope.header));
  }
  void say(const Word& word) { peer_.send(node_message(word)); }
  void join(int wish, const std::string& token = "") {
    Word word{.kind = Word::Kind::Join};
    word.card = {.wish = wish, .ranks = 2, .least = 2, .most = 2, .token = token};
    say(word);
  }
  void leave() { peer_.close(); }
  bool ended() const { return peer_.ended(); }
  std::optional<Word> next() {
    const std::lock_guard lock(mutex_);
    if (words_.empty())
      return std::nullopt;
    Word word = words_.front();
    words_.pop_front();
    return word;
  }

 private:
  std::mutex mutex_;
  std::deque<Word> words_;
  net::Node node_;
  net::Peer peer_;
};

class LeaderRanks : public ::testing::Test {
 protected:
  static Options options() {
    Options options{
        .max_restarts = 1,
        .run_id = "job",
        .master_port = quiet_port(),
        .nodes = Nodes{}};
    options.nodes->least = options.nodes->most = 2;
    return options;
  }
  // What the leader tells a node next.
  Word told(TestNode& node) {
    Word word;
    EXPECT_TRUE(within(kLong, [&] {
      leader_.attend();
      const auto next = node.next();
      word = next.value_or(word);
      return next.has_value();
    }));
    return word;
  }
  void begin() {
    two_.join(1);
    one_.join(-1, "token");
    go_ = told(one_).place;
    EXPECT_EQ(told(two_).place.node, 1);
  }

  const Options options_ = options();
  const net::Security security_ = net::Security::insecure_loopback();
  Leader leader_{options_, security_, "token"};
  TestNode one_{leader_, security_};
  TestNode two_{leader_, security_, "node-1"};
  NodePlace go_;
};

// With certificates the name is proven: who has one of another name gets no place.
TEST_F(LeaderRanks, NobodyTakesThePlaceOfAnotherNode) {
  TestNode thief(leader_, security_, "rank-3");
  thief.join(1);
  EXPECT_TRUE(within(kLong, [&] { return thief.ended(); }));
  begin();
  EXPECT_FALSE(thief.next());
}

TEST_F(LeaderRanks, GivesPlacesAndAStore) {
  begin();
  EXPECT_EQ(go_.node, 0) << "it has the token";
  EXPECT_EQ(go_.ranks_in_all, 4);
  EXPECT_EQ(go_.run_id, "job");
  EXPECT_EQ(go_.master_addr, "127.0.0.1");
  EXPECT_GT(go_.master_port, 0);
  EXPECT_NE(go_.master_port, options_.master_port);
  EXPECT_EQ(go_.job_key, "") << "nothing protects this job";
  net::TcpStore store(
      {.server = net::Address::parse(go_.store), .security = security_, .job = "job"});
  store.set("key", "value");
  EXPECT_EQ(store.try_get("key"), "value");
}

TEST_F(LeaderRanks, AStartThatIsOverIsRefusedByTheStoreOfTheNext) {
  begin();
  Word failed{.kind = Word::Kind::Failed};
  failed.failure.ending.exit_code = 3;
  two_.say(failed);
  EXPECT_EQ(told(one_).kind, Word::Kind::Failed);
  one_.say({.kind = Word::Kind::Idle});
  two_.say({.kind = Word::Kind::Idle});
  const NodePlace again = told(one_).place;
  EXPECT_EQ(again.attempt, 1);
  EXPECT_NE(again.store, go_.store);
  const auto open = [&](std::uint64_t start) {
    net::TcpStore store(
        {.server = net::Address::parse(again.store),
         .security = security_,
         .job = "job",
         .incarnation = start,
         .timeout = 20s});
  };
  EXPECT_THROW(open(0), Error);
  EXPECT_NO_THROW(open(1));
}

TEST_F(LeaderRanks, NoticesWhoLeaves) {
  begin();
  two_.leave();
  const Word lost = told(one_);
  EXPECT_EQ(lost.kind, Word::Kind::Lost);
  EXPECT_TRUE(lost.text.starts_with("node 1 (")) << lost.text;
}

TEST_F(LeaderRanks, RepeatsWhyANodeCannotGoOn) {
  begin();
  two_.say({.kind = Word::Kind::Lost, .text = "no memory"});
  EXPECT_NE(told(one_).text.find(" is gone: no memory"), std::string::npos);
}

TEST_F(LeaderRanks, CannotBeTwoAtOnePort) {
  EXPECT_THROW(Leader(options_, security_, "other"), InvalidArgument);
}

TEST(LeaderKeyRanks, GivesTheRanksAKeyOfTheirOwn) {
  Options options{
      .run_id = "job",
      .master_addr = "[127.0.0.1]",
      .master_port = quiet_port(),
      .nodes = Nodes{}};
  const auto key = net::JobKey::random();
  const auto security = net::Security::job_key(key);
  Leader leader(options, security, "token");
  TestNode node(leader, security);
  Word join{.kind = Word::Kind::Join};
  join.card.token = "token";
  node.say(join);
  std::optional<Word> go;
  ASSERT_TRUE(within(kLong, [&] {
    leader.attend();
    go = node.next();
    return go.has_value();
  }));
  EXPECT_EQ(go->place.master_addr, "127.0.0.1") << "brackets are for URLs";
  const auto given = net::JobKey::parse(go->place.job_key);
  EXPECT_FALSE(given == key);
  net::TcpStore store(
      {.server = net::Address::parse(go->place.store),
       .security = net::Security::job_key(given),
       .job = "job"});
  store.set("key", "value");
}

}  // namespace
}  // namespace trireme::launch
