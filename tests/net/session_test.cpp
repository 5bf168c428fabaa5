// Sessions over connections that break, stall and lie.
#include "trireme/net/session.h"

#include <atomic>
#include <future>
#include <map>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "certificate_files.h"
#include "relay.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/net/tls.h"
#include "two_nodes.h"

namespace trireme::net {
namespace {

using namespace std::chrono_literals;

/// What protects the connections of a test.
enum class Way { Plain, Tls, Certificates };

Security protect(Way way, const std::string& name) {
  if (way == Way::Plain)
    return Security::insecure_loopback();
  if (way == Way::Tls) {
    static const JobKey key = JobKey::random();
    return Security::job_key(key);
  }
  static TestAuthority authority;
  static std::map<std::string, Security> workers;
  if (!workers.contains(name))
    workers.emplace(name, authority.worker(name));
  return workers.at(name);
}

/// A client that reaches its server through a relay, with and without TLS.
class SessionTest : public ::testing::TestWithParam<Way> {
 protected:
  static Security security() { return protect(GetParam(), ""); }
  Peer connect() { return nodes_.client->connect("server", relay_.address(), soon()); }
  // Whole, once each, in order: what was received at the server.
  void expect_all(std::size_t count) {
    ASSERT_TRUE(nodes_.at_server.wait_messages(count));
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(nodes_.at_server.messages[i].envelope.request, i);
      EXPECT_TRUE(is_numbered(nodes_.at_server.messages[i])) << i;
    }
    EXPECT_EQ(nodes_.at_server.messages.size(), count);
    EXPECT_TRUE(nodes_.at_server.losses.empty());
  }
  // The dialer has greeted through a relay that is held, and nobody answers.
  static void wait_for_a_second_dial(const Relay& relay) {
    for (int i = 0; i < 1000 && relay.connections() < 2; ++i)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(relay.connections(), 2);
    std::this_thread::sleep_for(50ms);
  }
  // Wide windows, because the recorder keeps what it gets.
  TwoNodes nodes_{security(), [](NodeOptions& options) {
                    options.limits.large_window = std::size_t{1} << 30;
                    options.reconnect = 10s;
                    options.heartbeat = 2s;
                    options.linger = 200ms;  // the relay goes before the nodes
                  }};
  Relay relay_{nodes_.server->addresses().front()};
  LogSinkScope quiet_ = set_log_sink([](std::string_view) {});
};

TEST_P(SessionTest, GoesOnAfterEveryCut) {
  const Peer server = connect();
  for (std::uint64_t i = 0; i < 60; ++i) {
    server.send(numbered_message(i, 200'000));
    if (i % 6 == 5) {
      std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
      relay_.cut();
    }
  }
  expect_all(60);
  EXPECT_GT(relay_.connections(), 2);
}

// Its socket is accepted, and nobody speaks: a handshake may take 5 s, the caller has
// less.
TEST_P(SessionTest, ADialThatIsNotAnsweredEndsAtItsDeadline) {
  relay_.hold(true);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(
      nodes_.client->connect("server", relay_.address(), Deadline::after(300ms)),
      TimeoutError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
}

TEST_P(SessionTest, AMessageThatWasCutOffArrivesOnce) {
  relay_.set_step(10'000);
  const Peer server = connect();
  std::promise<bool> done;
  OutMessage message = numbered_message(0, 20'000'000);
  message.done = [&done](bool arrived) { done.set_value(arrived); };
  server.send(std::move(message));
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(30ms);
    relay_.cut();
  }
  expect_all(1);
  EXPECT_TRUE(done.get_future().get());
}

TEST_P(SessionTest, AShortSilenceDoesNoHarm) {
  const Peer server = connect();
  relay_.hold(true);
  for (std::uint64_t i = 0; i < 10; ++i)
    server.send(numbered_message(i, 1000));
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(nodes_.at_server.messages.empty());
  relay_.hold(false);
  expect_all(10);
}

TEST_P(SessionTest, ALongSilenceIsALoss) {
  const Peer server = connect();
  nodes_.at_server.peer();
  const auto start = std::chrono::steady_clock::now();
  relay_.hold(true);
  relay_.refuse(true);
  ASSERT_TRUE(nodes_.at_client.wait_losses(1));
  ASSERT_TRUE(nodes_.at_server.wait_losses(1));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GT(waited, 1s);
  EXPECT_LT(waited, 3s);  // the heartbeat time, and a second for a slow machine
  EXPECT_EQ(nodes_.at_client.losses[0].ending, Ending::Lost);
  EXPECT_EQ(nodes_.at_server.losses[0].ending, Ending::Lost);
  EXPECT_NE(
      nodes_.at_server.losses[0].why.find("nothing was heard of client"),
      std::string::npos);
}

TEST_P(SessionTest, ALossIsToldToThoseWhoseMessagesAreUnderWay) {
  const Peer server = connect();
  relay_.hold(true);
  relay_.refuse(true);
  std::promise<bool> done;
  OutMessage message = numbered_message(1, 1'000'000);
  message.done = [&done](bool arrived) { done.set_value(arrived); };
  server.send(std::move(message));
  EXPECT_FALSE(done.get_future().get());
  EXPECT_TRUE(server.ended());
  EXPECT_EQ(server.queued_bytes(), 0u);
}

// Greetings pass, and nothing longer does: each connection looks well, and is of no
// use.
TEST_P(SessionTest, ConnectionsThatCarryNothingAreALossThatSaysWhatToLookAt) {
  TwoNodes nodes(security(), [](NodeOptions& options) { options.heartbeat = 800ms; });
  Relay relay(nodes.server->addresses().front());
  const Peer server = nodes.client->connect("server", relay.address(), soon());
  relay.set_step(100);
  relay.starve_after(3000);
  server.send(numbered_message(0, 300'000));
  ASSERT_TRUE(nodes.at_server.wait_losses(1));
  EXPECT_EQ(nodes.at_server.losses[0].ending, Ending::Lost);
  EXPECT_NE(nodes.at_server.losses[0].why.find("(MTU)"), std::string::npos)
      << nodes.at_server.losses[0].why;
  EXPECT_TRUE(nodes.at_client.wait_losses(1));
  EXPECT_GT(relay.connections(), 2);
}

// One bit, at every place of the first kilobyte and at some of the rest: the greeting,
// heads, headers and bodies. The session heals or ends; nothing wrong arrives.
TEST_P(SessionTest, NoFlippedBitArrives) {
  std::atomic<int> arrived{0};
  nodes_.at_server.answer_with([&](const Peer&, InMessage message) {
    EXPECT_TRUE(message.body.empty() || is_numbered(message));
    EXPECT_TRUE(message.envelope.header == "n");
    ++arrived;
  });
  int sessions = 0;
  for (std::int64_t at = 0; at < 4500; at += at < 1200 ? 41 : 977) {
    Relay relay(nodes_.server->addresses().front());
    relay.flip(at);
    Recorder recorder;
    Node client(
        {.name = "client",
         .job = "test",
         .security = security(),
         .heartbeat = 1s,
         .reconnect = 300ms,
         .handshake = 300ms,
         .linger = 1s},
        recorder);
    try {
      const Peer server =
          client.connect("server", relay.address(), Deadline::after(1s));
      for (std::uint64_t i = 0; i < 3; ++i)
        server.send(numbered_message(i, 1500));
      ++sessions;
    } catch (const Error&) {
    }
    client.close();  // when all has come, or never will
    EXPECT_EQ(relay.flips(), 1) << at;
  }
  EXPECT_GT(sessions, 20) << "a dial is not tried again for ever";
  EXPECT_GT(arrived, 2 * sessions) << "of three messages each";
}

// A session of one message, whose bytes pass a relay once: one of those towards one end
// is flipped. Gives what that end logged, and the messages that came.
struct FlippedSession {
  enum class Towards { Acceptor, Dialer };

  FlippedSession(Way way, Towards towards, std::int64_t at) {
    set_log_levels({.general = LogLevel::Info});  // what breaks may come back
    const bool to_acceptor = towards == Towards::Acceptor;
    const LogSinkScope sink = set_log_sink([&](std::string_view line) {
      const std::lock_guard lock(mutex);
      // Each end's lines are about the other; only an acceptor turns somebody away.
      if (line.find(to_acceptor ? "client" : "server") != line.npos ||
          (to_acceptor && line.find("turned away") != line.npos))
        lines.emplace_back(line);
    });
    TwoNodes nodes({}, [way](NodeOptions& options) {
      options.security = protect(way, options.name);
      options.limits.small_bytes = 16;  // so that the message is acknowledged at once
      options.heartbeat = 300ms;
      options.handshake = 300ms;
      options.reconnect = 1ms;
    });
    Relay relay(nodes.server->addresses().front());
    relay.accept_only(1);
    to_acceptor ? relay.flip(at) : relay.flip_back(at);
    std::thread dialer([&] {
      try {
        const Peer server = nodes.client->connect("server", relay.address(), soon());
        server.send(numbered_message(1, 100));
        server.close();
      } catch (const Error&) {
        refused = true;
      }
    });
    for (int i = 0; i < 5000 && !ended; ++i) {
      std::this_thread::sleep_for(1ms);
      const std::lock_guard lock(nodes.at_server.mutex);
      ended = to_acceptor
                  ? !nodes.at_server.losses.empty() || nodes.server->turned_away() > 0
                  : relay.over();
    }
    nodes.client->close();
    dialer.join();
    nodes.server->close();
    left = !nodes.at_server.losses.empty() &&
           nodes.at_server.losses[0].ending == Ending::Left;
    for (const InMessage& message : nodes.at_server.messages)
      whole = whole && message.envelope.header == "n" && is_numbered(message);
    bytes = to_acceptor ? relay.passed() : relay.passed_back();
    flips = relay.flips();
  }
  ~FlippedSession() { set_log_levels({}); }

  std::mutex mutex;
  std::vector<std::string> lines;
  bool refused = false;  // the dial, with an error
  bool ended = false;
  bool left = false;
  bool whole = true;
  std::int64_t bytes = 0;
  int flips = 0;
};

class FlippedByte : public ::testing::TestWithParam<Way> {
 protected:
  using Towards = FlippedSession::Towards;
  // A certificate is long, and TlsWays sees to every byte of it.
  static int step() { return GetParam() == Way::Certificates ? 7 : 1; }
  static std::int64_t bytes(Towards towards) {
    const FlippedSession well(GetParam(), towards, -1);
    EXPECT_TRUE(well.left);
    EXPECT_EQ(well.lines, std::vector<std::string>());
    EXPECT_GT(well.bytes, 150);
    // Signatures differ in length.
    return GetParam() == Way::Certificates ? well.bytes - 10 : well.bytes;
  }
};

TEST_P(FlippedByte, EndsItsConnectionWithOneLineOfTheAcceptor) {
  const std::int64_t bytes = FlippedByte::bytes(Towards::Acceptor);
  int unnoticed = 0;
  int unflipped = 0;
  for (std::int64_t at = 0; at < bytes; at += step()) {
    const FlippedSession flipped(GetParam(), Towards::Acceptor, at);
    EXPECT_TRUE(flipped.ended) << at;
    EXPECT_TRUE(flipped.whole) << at;
    EXPECT_EQ(flipped.lines.size(), flipped.left ? 0u : 1u)
        << at << ": " << (flipped.lines.empty() ? "" : flipped.lines.back());
    unnoticed += flipped.left ? flipped.flips : 0;
    unflipped += 1 - flipped.flips;
  }
  // A version that TLS ignores, and its goodbye behind the last word.
  EXPECT_LT(unnoticed, GetParam() == Way::Plain ? 1 : 40);
  // Small frames that rode with others make a session shorter than the first one.
  EXPECT_LT(unflipped, 150);
}

// Who dials hears it from connect(), or once that has returned finds it in the log.
TEST_P(FlippedByte, EndsItsConnectionWithOneErrorOfTheDialer) {
  const std::int64_t bytes = FlippedByte::bytes(Towards::Dialer);
  int unnoticed = 0;
  int unflipped = 0;
  for (std::int64_t at = 0; at < bytes; at += step()) {
    const FlippedSession flipped(GetParam(), Towards::Dialer, at);
    EXPECT_TRUE(flipped.ended) << at;
    EXPECT_TRUE(flipped.whole) << at;
    const size_t said = flipped.lines.size() + (flipped.refused ? 1 : 0);
    EXPECT_LE(said, 1u) << at << ": "
                        << (flipped.lines.empty() ? "" : flipped.lines.back());
    unnoticed += said == 0 ? flipped.flips : 0;
    unflipped += 1 - flipped.flips;
  }
  // As above.
  EXPECT_LT(unnoticed, GetParam() == Way::Plain ? 3 : 40);
  EXPECT_LT(unflipped, 150);
}

std::vector<Way> all_ways() {
  std::vector<Way> ways = {Way::Plain};
  if (has_tls())
    ways.insert(ways.end(), {Way::Tls, Way::Certificates});
  return ways;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, FlippedByte, ::testing::ValuesIn(all_ways()), [](const auto& way) {
      return way.param == Way::Plain ? "Plain"
             : way.param == Way::Tls ? "Tls"
                                     : "Certificates";
    });

TEST_P(SessionTest, NothingComesOnceItIsDropped) {
  const Peer server =
      nodes_.client->connect("server", nodes_.server->addresses().front(), soon());
  std::promise<void> sent;
  std::atomic<int> received{0};
  nodes_.at_server.answer_with([&](const Peer& peer, InMessage) {
    if (received++ == 0)
      sent.get_future().wait_for(20s);
    peer.drop();
  });
  for (std::uint64_t i = 0; i < 20; ++i)
    server.send(numbered_message(i, 100));
  sent.set_value();
  ASSERT_TRUE(nodes_.at_server.wait_losses(1));
  nodes_.server.reset();  // its turn is over
  EXPECT_EQ(received, 1);
}

// Either end may close while the connection is broken: it comes back for the rest.
TEST_P(SessionTest, WhatIsClosedWhileItsConnectionIsBrokenStillArrives) {
  for (const bool dialer : {true, false})
    for (const bool whole_node : {false, true}) {
      TwoNodes nodes(security(), [](NodeOptions& options) { options.reconnect = 5s; });
      Relay relay(nodes.server->addresses().front());
      const Peer server = nodes.client->connect("server", relay.address(), soon());
      const Peer closer = dialer ? server : nodes.at_server.peer();
      Recorder& other = dialer ? nodes.at_server : nodes.at_client;
      relay.refuse(true);
      relay.cut();
      std::this_thread::sleep_for(50ms);
      closer.send(numbered_message(7, 100'000));
      std::thread closing([&] {
        if (!whole_node)
          return closer.close();
        (dialer ? nodes.client : nodes.server)->close();
      });
      std::this_thread::sleep_for(50ms);
      relay.refuse(false);
      EXPECT_TRUE(other.wait_messages(1)) << dialer << whole_node;
      EXPECT_TRUE(other.wait_losses(1)) << dialer << whole_node;
      closing.join();
      EXPECT_EQ(other.losses.at(0).ending, Ending::Left) << other.losses.at(0).why;
    }
}

// Who sends all the time hears nothing but what keeps the session alive.
TEST_P(SessionTest, WhoOnlyReceivesIsHeardOf) {
  TwoNodes nodes(security(), [](NodeOptions& options) { options.heartbeat = 400ms; });
  nodes.at_server.answer_with([](const Peer&, InMessage) {});
  Relay relay(nodes.server->addresses().front());
  const Peer server = nodes.client->connect("server", relay.address(), soon());
  for (int i = 0; i < 150; ++i) {
    server.send(numbered_message(1, i % 3 == 0 ? 300'000 : 100));
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_FALSE(server.ended()) << server.why();
  EXPECT_EQ(relay.connections(), 1);
}

// The other side's welcome may come after this side has given up.
TEST_P(SessionTest, WhatHasEndedIsNotBroughtBackToLife) {
  TwoNodes nodes(security(), [](NodeOptions& options) { options.reconnect = 2s; });
  Relay relay(nodes.server->addresses().front());
  const Peer server = nodes.client->connect("server", relay.address(), soon());
  const Peer client = nodes.at_server.peer();
  relay.hold(true);
  relay.cut();
  wait_for_a_second_dial(relay);
  server.drop();
  std::promise<bool> done;
  OutMessage late = numbered_message(1, 100);
  late.done = [&done](bool arrived) { done.set_value(arrived); };
  client.send(std::move(late));
  relay.hold(false);
  EXPECT_FALSE(done.get_future().get());
  EXPECT_TRUE(nodes.at_client.messages.empty());
}

// What is let go of while a connection is made anew must not be forgotten: the sender
// waits for it.
TEST_P(SessionTest, RoomThatBecomesFreeInAGreetingIsTold) {
  TwoNodes nodes(security(), [](NodeOptions& options) {
    options.limits.small_window = 20'000;
    options.reconnect = 10s;
    options.linger = 200ms;  // the relay goes before the nodes
  });
  Relay relay(nodes.server->addresses().front());
  const Peer server = nodes.client->connect("server", relay.address(), soon());
  const Peer client = nodes.at_server.peer();
  for (std::uint64_t i = 0; i < 30; ++i)
    client.send(numbered_message(i, 1500));
  ASSERT_TRUE(nodes.at_client.wait_messages(10));
  std::this_thread::sleep_for(200ms);  // acknowledged, but not let go of
  relay.hold(true);
  relay.cut();
  wait_for_a_second_dial(relay);
  std::atomic<int> more{0};
  {
    const std::lock_guard lock(nodes.at_client.mutex);
    nodes.at_client.on_message = [&](const Peer&, InMessage) { ++more; };
    nodes.at_client.messages.clear();
  }
  relay.hold(false);
  for (int i = 0; i < 5000 && more < 15; ++i)
    std::this_thread::sleep_for(1ms);
  EXPECT_GE(more, 15);
}

// Threads that send or drop do not ask the I/O thread first: for the sanitizers.
TEST_P(SessionTest, MayEndUnderTheHandsOfOthers) {
  nodes_.at_server.answer_with([](const Peer&, InMessage) {});
  for (int round = 0; round < 20; ++round) {
    const Peer server = connect();
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&] {
        while (!server.ended())
          server.send(numbered_message(1, 1000));
      });
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2 * i + 5));
        server.drop();
        EXPECT_TRUE(server.ended());
      });
    if (round % 2 == 0)
      relay_.cut();
    for (std::thread& thread : threads)
      thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SessionTest, ::testing::Values(Way::Plain, Way::Tls), [](const auto& way) {
      return way.param == Way::Tls ? "Tls" : "Plain";
    });

TEST(SessionProcs, APeerThatIsKilledIsLostWithinTwoSeconds) {
  TwoNodes nodes;
  const Address address = nodes.server->addresses().front();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // Threads do not come along; this process makes its own node.
    Recorder recorder;
    Node node(
        {.name = "child", .job = "test", .security = Security::insecure_loopback()},
        recorder);
    node.connect("server", address, soon());
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  nodes.at_server.peer();
  const auto start = std::chrono::steady_clock::now();
  ::kill(child, SIGKILL);
  ASSERT_TRUE(nodes.at_server.wait_losses(1));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  EXPECT_EQ(nodes.at_server.losses[0].ending, Ending::Lost);
  EXPECT_EQ(nodes.at_server.losses[0].name, "child");
  ::waitpid(child, nullptr, 0);
}

// Ctrl-Z, for longer than anybody may be silent.
TEST(SessionProcs, AStopOfThisProcessIsNobodysSilence) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    TwoNodes nodes(Security::insecure_loopback(), [](NodeOptions& options) {
      options.heartbeat = 400ms;
    });
    const Peer server = nodes.connect();
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    // Long enough for a loss to be noticed, once it has been woken.
    std::this_thread::sleep_for(2500ms);
    server.send(numbered_message(1, 100));
    const bool well = nodes.at_server.wait_messages(1) &&
                      nodes.at_server.losses.empty() && nodes.at_client.losses.empty();
    ::_exit(well ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  ::kill(child, SIGSTOP);
  std::this_thread::sleep_for(1500ms);
  ::kill(child, SIGCONT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace trireme::net
