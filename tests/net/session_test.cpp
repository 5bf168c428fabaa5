// Sessions over connections that break, stall and lie.
#include "trireme/net/session.h"

#include <future>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "relay.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "two_nodes.h"

namespace trireme::net {
namespace {

using namespace std::chrono_literals;

/// A client that reaches its server through a relay, with and without TLS.
class SessionTest : public ::testing::TestWithParam<bool> {
 protected:
  static Security security() {
    static const JobKey key = JobKey::random();
    return GetParam() ? Security::job_key(key) : Security::insecure_loopback();
  }
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
  // Wide windows, because the recorder keeps what it gets.
  TwoNodes nodes_{security(), [](NodeOptions& options) {
                    options.limits.large_window = std::size_t{1} << 30;
                    options.reconnect = 10s;
                    options.heartbeat = 2s;
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
  EXPECT_LT(waited, 4s);  // two seconds, and a slow machine
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
  for (std::int64_t at = 0; at < 6000; at += at < 1200 ? 41 : 977) {
    Relay relay(nodes_.server->addresses().front());
    relay.flip(at);
    Recorder recorder;
    Node client(
        {.name = "client",
         .job = "test",
         .security = security(),
         .heartbeat = 1s,
         .reconnect = 300ms,
         .handshake = 300ms},
        recorder);
    nodes_.at_server.on_message = [](const Peer&, InMessage message) {
      EXPECT_TRUE(message.body.empty() || is_numbered(message));
      EXPECT_TRUE(message.envelope.header == "n");
    };
    try {
      const Peer server =
          client.connect("server", relay.address(), Deadline::after(1s));
      relay.flip(-1 + (at >= 1200 ? at + 1 : 0));
      for (std::uint64_t i = 0; i < 3; ++i)
        server.send(numbered_message(i, 1500));
    } catch (const Error&) {
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SessionTest, ::testing::Bool(), [](const auto& way) {
  return way.param ? "Tls" : "Plain";
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
