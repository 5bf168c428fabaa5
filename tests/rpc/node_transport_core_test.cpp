#include "trireme/rpc/node_transport_core.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "transports.h"
#include "trireme/net/bytes.h"
#include "trireme/net/job_key.h"

namespace trireme::rpc {

using namespace std::chrono_literals;

// -- connections that break

TEST(NodeTransportCoreRanks, AShortBreakIsNotNoticed) {
  CutWorld world;
  for (std::size_t i = 0; i < 200; ++i) {
    world.at(0).send(
        1, {.head = text("packet ", i), .parts = {numbered_part(20'000, i)}});
    if (i % 50 == 25)
      world.relay.cut();
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_TRUE(world.log(1).wait_arrivals(200));
  EXPECT_TRUE(world.log(0).losses.empty());
  EXPECT_GT(world.relay.connections(), 1);
}

TEST(NodeTransportCoreRanks, ALongBreakIsALossAndTheWorkerComesBack) {
  CutWorld world;
  world.at(0).send(1, {.head = "before"});
  ASSERT_TRUE(world.log(1).wait_arrivals(1));
  world.relay.refuse(true);
  world.relay.cut();
  ASSERT_TRUE(world.log(0).wait_losses(1));
  EXPECT_EQ(world.log(0).losses[0].worker, 1);
  EXPECT_NE(world.log(0).losses[0].why, "");
  world.relay.refuse(false);
  // Nobody sends, and still there is a session again.
  EXPECT_TRUE(comes_true([&] { return world.at(0).stats().sessions == 1; }));
  world.at(0).send(1, {.head = "after"});
  EXPECT_TRUE(world.log(1).wait_arrivals(2));
  EXPECT_TRUE(world.log(0).ends.empty());
}

TEST(NodeTransportCoreRanks, WhatWaitsForAConnectionIsBoundedAndToldOf) {
  CutWorld world([](NodeTransportOptions& options) {
    use_tcp(options);
    options.waiting_bytes = 4 << 20;
    options.dial = 60s;
  });
  world.relay.refuse(true);
  for (std::size_t i = 0; i < 1000; ++i)
    world.at(0).send(
        1, {.head = text("packet ", i), .parts = {numbered_part(1 << 18, i)}});
  EXPECT_GE(world.at(0).stats().packets_dropped, 980u);
  EXPECT_TRUE(world.log(0).losses.empty());
  world.relay.refuse(false);
  ASSERT_TRUE(world.log(0).wait_losses(1));
  EXPECT_TRUE(comes_true([&] {
    return world.at(1).stats().packets_received + world.at(0).stats().packets_dropped ==
           1000;
  }));
}

TEST(NodeTransportCoreRanks, WhoCannotBeReachedIsLostAgainAndAgain) {
  CutWorld world([](NodeTransportOptions& options) {
    use_tcp(options);
    options.dial = 100ms;
  });
  world.relay.refuse(true);
  for (std::size_t i = 1; i <= 3; ++i) {
    world.at(0).send(1, {.head = "lost"});
    ASSERT_TRUE(world.log(0).wait_losses(i));
  }
  EXPECT_TRUE(world.log(0).ends.empty());
}

TEST(NodeTransportCoreRanks, WhatAReceiverKeepsHoldsNobodyUp) {
  TransportWorld world(2, use_tcp);
  // Far more than the window between two nodes, and all of it is kept.
  for (std::size_t i = 0; i < 60; ++i)
    world.at(0).send(
        1, {.head = text("packet ", i), .parts = {numbered_part(2 << 20, i)}});
  EXPECT_TRUE(world.log(1).wait_arrivals(60));
}

// -- those who speak before the thread that has dialled them knows of it

// Listens in the place of worker 1, and does something as soon as it is dialled.
struct HastyWorker : net::Recorder {
  explicit HastyWorker(std::function<void(const net::Peer&)> act)
      : acts(std::move(act)),
        node(
            {.name = "w1",
             .job = "test",
             .security = net::Security::insecure_loopback(),
             .listen = {net::Address::tcp("127.0.0.1", 0)}},
            *this) {}
  void joined(const net::Peer& peer) override {
    ++dialled;
    acts(peer);
  }
  std::function<void(const net::Peer&)> acts;
  std::atomic<int> dialled{0};
  net::Node node;
};

// A world of two of which the test is the second.
struct HalfWorld : TransportWorld {
  explicit HalfWorld(HastyWorker& other, const Change& change = {})
      : TransportWorld(2, change, false) {
    members[1].addresses = other.node.addresses();
    start(0);
  }
};

TEST(NodeTransportCoreRanks, AnOfferThatComesAtOnceIsTaken) {
  for (int round = 0; round < 30; ++round) {
    const auto arena = Arena::make(1 << 20);
    HastyWorker other([&](const net::Peer& peer) {
      peer.send(
          {.envelope = {
               .type = static_cast<std::uint16_t>(WireKind::Offer),
               .header = encode_offer(arena->offer())}});
    });
    HalfWorld world(other);
    world.at(0).send(1, {.head = "hello"});
    ASSERT_TRUE(other.wait_messages(2));
    const auto answer = std::find_if(
        other.messages.begin(), other.messages.end(), [](const net::InMessage& one) {
          return one.envelope.type == static_cast<std::uint16_t>(WireKind::Answer);
        });
    ASSERT_NE(answer, other.messages.end());
    ASSERT_TRUE(decode_answer(answer->envelope.header)) << "round " << round;
  }
}

TEST(NodeTransportCoreRanks, AGoodbyeThatComesAtOnceIsHeard) {
  for (int round = 0; round < 30; ++round) {
    HastyWorker other([](const net::Peer& peer) { peer.close(); });
    HalfWorld world(other, use_tcp);
    world.at(0).send(1, {.head = "hello"});
    ASSERT_TRUE(world.log(0).wait_ends(1));
    ASSERT_EQ(other.dialled, 1) << "round " << round;
  }
}

// -- those who are not let in

TEST(NodeTransportCoreRanks, AnotherKeyIsRefusedWithAReason) {
  TransportWorld world(2, [](NodeTransportOptions& options) {
    options.security = net::Security::job_key(net::JobKey::random());
  });
  world.at(0).send(1, {.head = "hello"});
  ASSERT_TRUE(world.log(0).wait_ends(1));
  EXPECT_EQ(world.log(0).ends[0].worker, 1);
  EXPECT_NE(world.log(0).ends[0].why.find("key"), std::string::npos)
      << world.log(0).ends[0].why;
  EXPECT_TRUE(world.log(1).arrivals.empty());
}

TEST(NodeTransportCoreRanks, AnotherJobIsRefusedWithAReason) {
  TransportWorld world(2, [](NodeTransportOptions& options) {
    options.incarnation = static_cast<std::uint64_t>(options.me.id);
  });
  world.at(0).send(1, {.head = "hello"});
  ASSERT_TRUE(world.log(0).wait_ends(1));
  EXPECT_NE(world.log(0).ends[0].why.find("to a start that is over"), std::string::npos)
      << world.log(0).ends[0].why;
}

TEST(NodeTransportCoreRanks, BadBytesEndTheirSenderAlone) {
  struct Lie {
    WireKind kind;
    std::string header;
    const char* why;
  };
  const std::string one_shared =
      net::ByteWriter().flag(true).u64(8).u64(0).take();  // before any offer
  for (const Lie& lie :
       {Lie{static_cast<WireKind>(99), "", "got a message of type 99"},
        Lie{WireKind::Packet, "short", "the header of a packet"},
        Lie{WireKind::Packet,
            net::ByteWriter().u64(1 << 30).u32(0).take(),
            "a head that lies in it"},
        Lie{WireKind::Packet, net::ByteWriter().u64(0).u32(1).take(), "in 0 bytes"},
        Lie{WireKind::Offer, "x", "an offer of shared memory"},
        Lie{WireKind::Answer, encode_answer(true), "without an offer"},
        Lie{WireKind::Return, encode_returns({0}), "to be given back"}}) {
    TransportWorld world(3);
    BadWorker bad(world);
    bad.say(lie.kind, lie.header, one_shared);
    ASSERT_TRUE(world.log(0).wait_ends(1)) << lie.why;
    EXPECT_EQ(world.log(0).ends[0].worker, 1);
    EXPECT_NE(world.log(0).ends[0].why.find(lie.why), std::string::npos)
        << world.log(0).ends[0].why;
    world.at(2).send(0, {.head = "hello"});
    EXPECT_TRUE(world.log(0).wait_arrivals(1));
    EXPECT_EQ(world.log(0).arrivals[0].from, 2);
  }
}

// Also from inside the receiver, where it is mostly called.
TEST(NodeTransportCoreRanks, WhoIsGivenUpHearsOfIt) {
  TransportWorld world(2);
  world.log(0).on_packet = [&](WorkerId from, Packet) {
    world.at(0).send(from, {.head = "last"});
    world.at(0).give_up(from);
  };
  world.at(1).send(0, {.head = "nonsense"});
  ASSERT_TRUE(world.log(1).wait_ends(1));
  EXPECT_EQ(world.log(1).ends[0].why, "w0 has left");
  ASSERT_TRUE(world.log(1).wait_arrivals(1));
  EXPECT_EQ(world.log(1).arrivals[0].packet.head, "last");
  ASSERT_TRUE(world.log(0).wait_ends(1));
  EXPECT_EQ(world.log(0).ends[0].worker, 1);
}

// Before anything is allocated for it.
TEST(NodeTransportCoreRanks, MessagesAboveAWorkersLimitAreRefused) {
  const auto change = [](NodeTransportOptions& options) {
    use_tcp(options);
    if (options.me.id == 0)
      options.me.message_bytes = 1 << 20;
  };
  TransportWorld world(3, change);
  const auto part = numbered_part(8 << 20, 1);
  EXPECT_THROW(world.at(2).send(0, {.parts = {part}}), InvalidArgument);
  world.at(2).send(1, {.parts = {part}});
  EXPECT_TRUE(world.log(1).wait_arrivals(1));
  world.at(2).send(0, {.parts = {numbered_part(1 << 20, 1)}});
  EXPECT_TRUE(world.log(0).wait_arrivals(1));
  BadWorker bad(world);
  EXPECT_THROW(
      bad.say(WireKind::Packet, "header", std::string(8 << 20, 'x')), InvalidArgument);
}

TEST(NodeTransportCoreRanks, AStrangerIsTurnedAway) {
  TransportWorld world(1);
  net::Recorder recorder;
  net::Node stranger(
      {.name = "stranger",
       .job = "test",
       .security = net::Security::insecure_loopback()},
      recorder);
  stranger.connect("w0", world.members[0].addresses.front(), net::soon());
  EXPECT_TRUE(recorder.wait_losses(1));
}

}  // namespace trireme::rpc
