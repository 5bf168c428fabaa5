#include "trireme/rpc/contact.h"

#include <gtest/gtest.h>

#include "../net/two_nodes.h"

namespace trireme::rpc {
namespace {

using namespace std::chrono_literals;

Packet packet_of(std::size_t bytes) {
  return {.head = std::string(bytes, 'x')};
}

// Whether the caller was told to dial.
bool offer_packet(Contact& contact, std::size_t bytes) {
  Packet packet = packet_of(bytes);
  return contact.way_for(packet).dial;
}

class ContactTest : public ::testing::Test {
 protected:
  Contact contact_{{.info = {.id = 1, .name = "w1"}}, {}, 10'000, 0};
  net::TwoNodes nodes_;
};

}  // namespace

TEST_F(ContactTest, TheFirstPacketDialsAndAllWait) {
  EXPECT_TRUE(contact_.is_idle());
  EXPECT_TRUE(offer_packet(contact_, 1));
  EXPECT_FALSE(offer_packet(contact_, 2));
  EXPECT_FALSE(contact_.is_idle());
  EXPECT_TRUE(contact_.wants_dial());
  const net::Peer peer = nodes_.connect();
  const Contact::Begun begun = contact_.begin(peer, true);
  EXPECT_FALSE(begun.refused || begun.dropped);
  ASSERT_EQ(begun.packets.size(), 2u);
  EXPECT_EQ(begun.packets[1].head, "xx");
  EXPECT_EQ(begun.lender, nullptr);
  EXPECT_FALSE(contact_.is_idle());  // until they are on their way
  contact_.posted();
  EXPECT_TRUE(contact_.is_idle());
  Packet packet = packet_of(3);
  EXPECT_EQ(contact_.way_for(packet).peer, peer);
}

TEST_F(ContactTest, WhatDoesNotFindRoomIsDroppedAndToldLater) {
  EXPECT_TRUE(offer_packet(contact_, 50'000));  // one always finds room
  Packet packet = packet_of(1);
  EXPECT_TRUE(contact_.way_for(packet).dropped);
  const Contact::Begun begun = contact_.begin(nodes_.connect(), true);
  EXPECT_TRUE(begun.dropped);
  EXPECT_EQ(begun.packets.size(), 1u);
}

TEST_F(ContactTest, ManySmallPacketsAreBoundedToo) {
  int dropped = 0;
  for (int i = 0; i < 1000; ++i) {
    Packet packet = packet_of(0);
    dropped += contact_.way_for(packet).dropped;
  }
  EXPECT_GT(dropped, 900);
}

TEST_F(ContactTest, AnAttemptThatFailsIsMadeAgainWithGrowingPauses) {
  offer_packet(contact_, 1);
  Contact::Ended ended = contact_.fail_to_dial();
  EXPECT_TRUE(ended.lost && ended.dial);
  std::chrono::milliseconds pause = ended.pause;
  for (int i = 0; i < 12; ++i) {
    // Nobody else dials meanwhile.
    EXPECT_FALSE(i % 2 == 0 && offer_packet(contact_, 1));
    ended = contact_.fail_to_dial();
    EXPECT_TRUE(ended.dial);
    EXPECT_EQ(ended.lost, i % 2 == 0);
    EXPECT_GE(ended.pause, pause);
    EXPECT_LE(ended.pause, 5s);
    pause = ended.pause;
  }
  EXPECT_EQ(pause, 5s);
}

TEST_F(ContactTest, OfTwoSessionsOneIsEnough) {
  const net::Peer first = nodes_.connect(), second = nodes_.connect();
  contact_.begin(first, true);
  contact_.begin(second, false);
  const Contact::Ended other = contact_.end(second);
  EXPECT_FALSE(other.last || other.lost || other.dial);
  contact_.begin(second, false);
  const Contact::Ended ended = contact_.end(first);
  EXPECT_TRUE(ended.lost);
  EXPECT_FALSE(ended.last || ended.dial);
  EXPECT_TRUE(contact_.end(second).dial);
  const Contact::Ended unknown = contact_.end(second);
  EXPECT_FALSE(unknown.lost || unknown.dial);
}

// Who was dialled may speak, or leave, before the thread that has dialled says so.
TEST_F(ContactTest, ASessionMayBeKnownTwiceAndEndUnknown) {
  Contact near({.info = {.id = 1, .name = "w1"}}, {}, 10'000, 4096);
  const net::Peer peer = nodes_.connect();
  EXPECT_TRUE(near.end(peer).last);
  EXPECT_TRUE(offer_packet(near, 1));
  const Contact::Begun first = near.begin(peer, false);
  EXPECT_EQ(first.packets.size(), 1u);
  const auto borrower = near.borrower(peer);
  const Contact::Begun again = near.begin(peer, true);
  EXPECT_EQ(again.lender, first.lender);
  EXPECT_EQ(near.borrower(peer), borrower);
  EXPECT_EQ(near.sessions().size(), 1u);
  EXPECT_FALSE(near.end(nodes_.connect()).last);
  EXPECT_TRUE(near.end(peer).last);
}

TEST_F(ContactTest, WhoHasBeenDialledMeanwhileIsNotDialled) {
  offer_packet(contact_, 1);
  const net::Peer peer = nodes_.connect();
  contact_.begin(peer, false);
  EXPECT_FALSE(contact_.wants_dial());
  EXPECT_FALSE(contact_.fail_to_dial().dial);
  EXPECT_TRUE(contact_.end(peer).dial);
}

TEST_F(ContactTest, WhoIsGoneStaysSo) {
  offer_packet(contact_, 1);
  EXPECT_TRUE(contact_.set_gone());
  EXPECT_FALSE(contact_.set_gone());
  EXPECT_TRUE(contact_.is_gone());
  EXPECT_TRUE(contact_.is_idle());
  EXPECT_FALSE(offer_packet(contact_, 1));
  EXPECT_FALSE(contact_.wants_dial());
  EXPECT_FALSE(contact_.fail_to_dial().dial);
  EXPECT_TRUE(contact_.begin(nodes_.connect(), true).refused);
}

TEST_F(ContactTest, ThoseThatShareMemoryLendAndBorrow) {
  Contact near({.info = {.id = 1, .name = "w1"}}, {}, 10'000, 4096);
  const net::Peer peer = nodes_.connect();
  EXPECT_EQ(near.lender(peer), nullptr);
  const auto lender = near.begin(peer, true).lender;
  EXPECT_NE(lender, nullptr);
  EXPECT_EQ(near.lender(peer), lender);
  EXPECT_NE(near.borrower(peer), nullptr);
  Packet packet;
  EXPECT_EQ(near.way_for(packet).lender, lender);
  near.end(peer);
  EXPECT_EQ(near.lender(peer), nullptr);
  EXPECT_EQ(lender.use_count(), 1);
}

}  // namespace trireme::rpc
