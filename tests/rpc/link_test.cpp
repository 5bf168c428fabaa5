#include "trireme/rpc/link.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/net/bytes.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

constexpr LinkOptions kLinkOptions{
    .lease = milliseconds(1000), .resend = milliseconds(50)};
constexpr Time kLinkStart{std::chrono::hours(1)};

Message saying(std::string body) {
  return {.kind = 7, .body = std::move(body), .parts = {}};
}

// Two ends with nothing between them: what one flushes, the test hands to the other.
struct LinkedPair {
  Link a{kLinkOptions, 100};
  Link b{kLinkOptions, 200};
  Time now = kLinkStart;

  std::vector<std::string> give(Link& to, const std::vector<Packet>& packets) {
    std::vector<std::string> heard;
    for (const Packet& packet : packets) {
      Link::Arrivals arrivals = to.receive(packet, now);
      if (arrivals.voided)
        heard.push_back("void");
      for (const Message& message : arrivals.messages)
        heard.push_back(message.body);
    }
    return heard;
  }

  // Packets back and forth until nobody has more to say.
  std::vector<std::string> talk() {
    std::vector<std::string> heard;
    for (int round = 0; round < 10; ++round) {
      const auto to_b = give(b, a.flush(now));
      const auto to_a = give(a, b.flush(now));
      heard.insert(heard.end(), to_b.begin(), to_b.end());
      heard.insert(heard.end(), to_a.begin(), to_a.end());
    }
    return heard;
  }

  void pass(milliseconds time) {
    for (; time.count() > 0; time -= milliseconds(10)) {
      now += milliseconds(10);
      a.tick(false, now);
      b.tick(false, now);
    }
  }
};

using Words = std::vector<std::string>;

TEST(Link, GreetsBeforeItSpeaks) {
  LinkedPair pair;
  pair.a.post(saying("hello"), pair.now);
  const auto greeting = pair.a.flush(pair.now);
  ASSERT_EQ(greeting.size(), 1u);
  EXPECT_EQ(pair.give(pair.b, greeting), Words()) << "a greeting carries no messages";
  EXPECT_EQ(pair.talk(), Words{"hello"});
  EXPECT_EQ(pair.a.round(), 0u);
}

TEST(Link, PacketsMayComeTwiceAndInAnyOrder) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  std::vector<Packet> packets;
  for (const char* word : {"1", "2", "3"}) {
    pair.a.post(saying(word), pair.now);
    for (Packet& packet : pair.a.flush(pair.now))
      packets.push_back(std::move(packet));
  }
  ASSERT_EQ(packets.size(), 3u);
  std::reverse(packets.begin(), packets.end());
  EXPECT_EQ(pair.give(pair.b, packets), (Words{"3", "2", "1"}));
  EXPECT_EQ(pair.give(pair.b, packets), Words());
}

TEST(Link, WhatWasLostIsSentAgainAndWhatWasAcknowledgedIsNot) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  pair.a.post(saying("lost"), pair.now);
  pair.a.flush(pair.now);
  EXPECT_EQ(pair.a.waiting(), 2u);
  pair.pass(milliseconds(60));
  EXPECT_EQ(pair.talk(), Words{"lost"});
  pair.pass(milliseconds(60));
  pair.talk();
  EXPECT_EQ(pair.a.waiting(), 0u) << "all was acknowledged";
}

TEST(Link, WithoutATimeItSendsAgainOnlyWhenToldOfALoss) {
  Link quiet({.lease = milliseconds(1000)}, 1);
  Link other({.lease = milliseconds(1000)}, 2);
  Time now = kLinkStart;
  quiet.post(saying("word"), now);
  const auto pass = [&](Link& from, Link& to) {
    std::size_t heard = 0;
    for (const Packet& packet : from.flush(now))
      heard += to.receive(packet, now).messages.size();
    return heard;
  };
  pass(quiet, other);
  pass(other, quiet);
  EXPECT_EQ(quiet.flush(now).size(), 1u);  // nobody gets it
  now += milliseconds(200);
  quiet.tick(false, now);
  EXPECT_EQ(pass(quiet, other), 0u);
  quiet.resend(now);
  EXPECT_EQ(pass(quiet, other), 1u);
}

TEST(Link, SmallMessagesShareAPacket) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  for (int i = 0; i < 500; ++i)
    pair.a.post(saying(std::string(40, 'x')), pair.now);
  EXPECT_EQ(pair.a.flush(pair.now).size(), 1u);
  for (int i = 0; i < 3; ++i)
    pair.a.post(saying(std::string(40'000, 'x')), pair.now);
  EXPECT_EQ(pair.a.flush(pair.now).size(), 2u);
}

TEST(Link, PartsStayWithTheirMessages) {
  LinkedPair pair;
  std::byte bytes[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  const auto part = [&](int i) {
    return Part{.bytes = {bytes + i, 1}, .keep = nullptr};
  };
  pair.a.post({.kind = 1, .body = "two", .parts = {part(0), part(1)}}, pair.now);
  pair.a.post({.kind = 2, .body = "none", .parts = {}}, pair.now);
  pair.a.post({.kind = 3, .body = "one", .parts = {part(2)}}, pair.now);
  pair.give(pair.b, pair.a.flush(pair.now));
  pair.give(pair.a, pair.b.flush(pair.now));
  const auto packets = pair.a.flush(pair.now);
  ASSERT_EQ(packets.size(), 1u);
  const auto messages = pair.b.receive(packets[0], pair.now).messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].parts.size(), 2u);
  EXPECT_EQ(messages[1].parts.size(), 0u);
  ASSERT_EQ(messages[2].parts.size(), 1u);
  EXPECT_EQ(messages[2].parts[0].bytes[0], std::byte{3});
}

TEST(Link, ASilentOtherIsVoidAfterTheLeaseAndNotBefore) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  pair.a.post(saying("nobody hears"), pair.now);
  bool expired = false;
  const Time start = pair.now;
  while (!expired && pair.now - start < milliseconds(3000)) {
    pair.now += milliseconds(10);
    expired = pair.a.tick(true, pair.now);
    pair.a.flush(pair.now);
  }
  EXPECT_GT(pair.now - start, kLinkOptions.lease);
  EXPECT_LT(pair.now - start, kLinkOptions.lease + milliseconds(50));
  EXPECT_EQ(pair.a.round(), 1u);
  EXPECT_EQ(pair.a.waiting(), 0u);
}

TEST(Link, ALivingOtherIsAskedAndAnswers) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  for (int i = 0; i < 500; ++i) {
    pair.now += milliseconds(10);
    EXPECT_FALSE(pair.a.tick(true, pair.now));
    EXPECT_FALSE(pair.b.tick(true, pair.now));
    pair.talk();
  }
}

TEST(Link, AQuestionThatIsLostIsAskedAgain) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  pair.pass(milliseconds(100));
  pair.talk();
  const auto asks = [&] {
    pair.now += milliseconds(10);
    pair.a.tick(true, pair.now);
    return !pair.a.flush(pair.now).empty();
  };
  bool asked = false;
  for (int i = 0; i < 30 && !asked; ++i)
    asked = asks();
  ASSERT_TRUE(asked);
  EXPECT_FALSE(asks());
  pair.a.resend(pair.now);
  EXPECT_TRUE(asks());
}

TEST(Link, TimeDuringWhichTheProcessStoodStillIsForgiven) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  pair.now += milliseconds(5000);
  EXPECT_FALSE(pair.a.tick(true, pair.now));
}

// How long `link` waits, from now on, until it takes a silent other for gone.
milliseconds patience_of(Link& link, Time now) {
  const Time start = now;
  while (now - start < 10 * kLinkOptions.lease && !link.tick(true, now)) {
    link.flush(now);
    now += milliseconds(10);
  }
  return std::chrono::duration_cast<milliseconds>(now - start);
}

TEST(Link, TheLeaseIsNoLongerAfterAnIdleTime) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  pair.pass(milliseconds(100));
  pair.talk();
  pair.pass(milliseconds(10));
  ASSERT_EQ(pair.b.next(), Time::max());
  pair.now += std::chrono::hours(1);
  pair.a.post(saying("second"), pair.now);
  ASSERT_EQ(pair.talk(), Words{"second"});
  EXPECT_LE(patience_of(pair.b, pair.now), kLinkOptions.lease + milliseconds(20));
}

TEST(Link, WhatIsForgivenEndsNow) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  pair.b.tick(true, pair.now);
  pair.now += milliseconds(400);
  pair.a.post(saying("second"), pair.now);
  ASSERT_EQ(pair.talk(), Words{"second"});
  pair.now += milliseconds(200);  // since nobody ticked, for more than half a lease
  EXPECT_LE(patience_of(pair.b, pair.now), kLinkOptions.lease + milliseconds(20));
}

TEST(Link, AnEndThatBeginsAnewMakesAllVoidOnBothSides) {
  LinkedPair pair;
  pair.a.post(saying("old"), pair.now);
  pair.talk();
  pair.a.post(saying("on its way"), pair.now);
  const auto late = pair.a.flush(pair.now);
  pair.b = Link(kLinkOptions, 300);  // started anew
  pair.b.post(saying("new"), pair.now);
  EXPECT_EQ(pair.talk(), (Words{"void", "new"}));
  EXPECT_EQ(pair.give(pair.b, late), Words()) << "from before the new beginning";
  EXPECT_EQ(pair.a.round(), 1u);
  EXPECT_EQ(pair.b.round(), 0u) << "it had nothing that could be void";
  pair.a.post(saying("again"), pair.now);
  EXPECT_EQ(pair.talk(), Words{"again"});
}

TEST(Link, AResetIsHeardByTheOther) {
  LinkedPair pair;
  pair.a.post(saying("old"), pair.now);
  pair.talk();
  pair.a.reset();
  EXPECT_EQ(pair.talk(), Words{"void"});
}

// Each has begun anew, and one of them has nothing to say.
TEST(Link, BothMayBeginAnewAtOnce) {
  LinkedPair pair;
  pair.a.post(saying("old"), pair.now);
  pair.talk();
  pair.a.reset();
  pair.b.reset();
  pair.a.flush(pair.now);  // nobody gets what they say of it
  pair.b.flush(pair.now);
  pair.b.post(saying("new"), pair.now);
  Words heard;
  for (int i = 0; i < 100 && heard.empty(); ++i) {
    pair.pass(milliseconds(10));
    heard = pair.talk();
  }
  EXPECT_EQ(heard, Words{"new"});
  EXPECT_EQ(pair.b.round(), 1u) << "what was said then is not void";
}

TEST(Link, WhoHasBegunAnewIsHeardThoughTheOtherIsSilent) {
  LinkedPair pair;
  pair.a.post(saying("old"), pair.now);
  pair.talk();
  pair.a.reset();
  EXPECT_EQ(pair.talk(), Words{"void"});
  pair.a.post(saying("new"), pair.now);
  pair.pass(milliseconds(220));
  EXPECT_EQ(pair.talk(), Words{"new"});
}

TEST(Link, WhatNoLinkWouldWriteIsRefused) {
  LinkedPair pair;
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  pair.a.post(saying("word"), pair.now);
  const Packet good = pair.a.flush(pair.now).at(0);
  for (std::size_t size = 0; size < good.head.size(); ++size) {
    Packet cut{.head = good.head.substr(0, size), .parts = {}};
    if (size == 25)
      continue;  // a head alone is an acknowledgement
    EXPECT_THROW(pair.b.receive(cut, pair.now), InvalidArgument) << size << " bytes";
  }
  Packet more = good;
  more.head += "x";
  EXPECT_THROW(Link(pair.b).receive(more, pair.now), InvalidArgument);
  Packet far = good;
  far.head.replace(25, 8, net::ByteWriter().u64(1 << 21).bytes());
  EXPECT_THROW(Link(pair.b).receive(far, pair.now), InvalidArgument);
  Packet parts = good;
  parts.head.replace(34, 4, net::ByteWriter().u32(1).bytes());
  EXPECT_THROW(Link(pair.b).receive(parts, pair.now), InvalidArgument);
}

TEST(Link, SleepsWhereNothingIsBetweenTheTwo) {
  LinkedPair pair;
  EXPECT_EQ(pair.a.next(), Time::max());
  pair.a.post(saying("first"), pair.now);
  pair.talk();
  pair.pass(milliseconds(100));
  pair.talk();
  pair.pass(milliseconds(20));
  EXPECT_EQ(pair.a.next(), Time::max());
  EXPECT_EQ(pair.b.next(), Time::max());
}

}  // namespace
}  // namespace trireme::rpc
