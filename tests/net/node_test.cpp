#include "trireme/net/node.h"

#include <cstring>
#include <fstream>
#include <future>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>

#include <gtest/gtest.h>

#include "relay.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/core/scratch_folder.h"
#include "two_nodes.h"

namespace trireme::net {
namespace {

using namespace std::chrono_literals;

// An abstract name needs to differ between tests that run at once.
std::string abstract_name() {
  static std::atomic<int> count{0};
  return text("@trireme-node-test-", ::getpid(), "-", ++count);
}

Address address_of(const std::string& kind) {
  if (kind == "unix")
    return Address::unix_at(abstract_name());
  return Address::tcp(kind, 0);
}

class NodeTest : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  static Security security() {
    static const JobKey key = JobKey::random();
    return std::get<1>(GetParam()) ? Security::job_key(key)
                                   : Security::insecure_loopback();
  }
  TwoNodes nodes_{security(), {}, address_of(std::get<0>(GetParam()))};
};

TEST_P(NodeTest, MessagesOfAllSizesArriveBothWays) {
  const Peer server = nodes_.connect();
  EXPECT_EQ(server.name(), "server");
  const Peer client = nodes_.at_server.peer();
  EXPECT_EQ(client.name(), "client");
  const std::size_t sizes[] = {0, 1, 100, 65535, 65536, 262144, 262145, 3'000'000};
  for (std::uint64_t i = 0; i < std::size(sizes); ++i) {
    server.send(numbered_message(i, sizes[i]));
    client.send(numbered_message(i, sizes[i]));
  }
  for (Recorder* side : {&nodes_.at_client, &nodes_.at_server}) {
    ASSERT_TRUE(side->wait_messages(std::size(sizes)));
    for (const InMessage& message : side->messages) {
      EXPECT_EQ(message.body.size(), sizes[message.envelope.request]);
      EXPECT_TRUE(is_numbered(message)) << message.envelope.request;
      EXPECT_EQ(message.envelope.type, 5);
      EXPECT_EQ(message.envelope.header, "n");
    }
  }
}

TEST_P(NodeTest, TheSenderIsToldWhenItsMessageHasArrived) {
  const Peer server = nodes_.connect();
  std::promise<bool> done[2];
  for (int i = 0; i < 2; ++i) {
    OutMessage message = numbered_message(1, i == 0 ? 10 : 2'000'000);
    message.done = [&done, i](bool arrived) { done[i].set_value(arrived); };
    server.send(std::move(message));
  }
  EXPECT_TRUE(done[0].get_future().get());
  EXPECT_TRUE(done[1].get_future().get());
}

TEST_P(NodeTest, ManyThreadsMaySend) {
  const Peer server = nodes_.connect();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&server, t] {
      for (std::uint64_t i = 0; i < 200; ++i)
        server.send(numbered_message(static_cast<std::uint64_t>(t) * 1000 + i, i * 50));
    });
  for (std::thread& thread : threads)
    thread.join();
  // Messages keep their allowance as long as they lie here: the windows are large
  // enough.
  ASSERT_TRUE(nodes_.at_server.wait_messages(800));
  std::vector<std::uint64_t> next(4);
  for (const InMessage& message : nodes_.at_server.messages) {
    EXPECT_TRUE(is_numbered(message));
    EXPECT_EQ(message.envelope.request % 1000, next[message.envelope.request / 1000]++);
  }
}

TEST_P(NodeTest, ClosingSendsWhatIsQueuedAndSaysGoodbye) {
  const Peer server = nodes_.connect();
  server.send(numbered_message(1, 5'000'000));
  server.close();
  ASSERT_TRUE(nodes_.at_server.wait_losses(1));
  EXPECT_EQ(nodes_.at_server.losses[0].ending, Ending::Left);
  EXPECT_EQ(nodes_.at_server.losses[0].why, "client has left");
  ASSERT_EQ(nodes_.at_server.messages.size(), 1u);
  EXPECT_TRUE(is_numbered(nodes_.at_server.messages[0]));
  ASSERT_TRUE(nodes_.at_client.wait_losses(1));
  EXPECT_EQ(nodes_.at_client.losses[0].ending, Ending::Closed);
  EXPECT_TRUE(server.ended());
  bool arrived = true;
  server.send({.done = [&](bool did) { arrived = did; }});
  EXPECT_FALSE(arrived);
}

TEST_P(NodeTest, ANodeThatGoesSaysGoodbyeToAll) {
  nodes_.connect();
  nodes_.at_server.peer().send(numbered_message(1, 1'000'000));
  nodes_.server.reset();
  ASSERT_TRUE(nodes_.at_client.wait_losses(1));
  EXPECT_EQ(nodes_.at_client.losses[0].ending, Ending::Left);
  EXPECT_EQ(nodes_.at_client.messages.size(), 1u);
}

TEST_P(NodeTest, BodiesGoStraightToTheirPlace) {
  std::vector<std::byte> memory(1'000'000);
  nodes_.at_server.on_place =
      [&](const Peer&, const Envelope& envelope, std::size_t bytes) {
        EXPECT_EQ(envelope.request, 3u);
        return std::span(memory).first(bytes);
      };
  nodes_.connect().send(numbered_message(3, 900'000));
  ASSERT_TRUE(nodes_.at_server.wait_messages(1));
  EXPECT_EQ(nodes_.at_server.messages[0].body.data(), memory.data());
  EXPECT_TRUE(is_numbered(nodes_.at_server.messages[0]));
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    NodeTest,
    ::testing::Combine(
        ::testing::Values("127.0.0.1", "::1", "unix"), ::testing::Bool()),
    [](const auto& way) {
      const std::string where = std::get<0>(way.param);
      return (where == "unix"  ? "Unix"
              : where == "::1" ? "Tcp6"
                               : "Tcp4") +
             std::string(std::get<1>(way.param) ? "Tls" : "Plain");
    });

TEST(Node, ASlowReceiverHoldsOnlyItsSenderUp) {
  TwoNodes nodes(Security::insecure_loopback(), [](NodeOptions& options) {
    options.limits.large_window = 1 << 20;
  });
  const Peer server = nodes.connect();
  std::atomic<int> arrived{0};
  for (std::uint64_t i = 0; i < 8; ++i) {
    OutMessage message = numbered_message(i, 700'000);
    message.done = [&arrived](bool) { ++arrived; };
    server.send(std::move(message));
  }
  // The second must wait until the first is let go of; small ones pass.
  server.send(numbered_message(100, 10));
  ASSERT_TRUE(nodes.at_server.wait_messages(2));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(arrived, 1);
  for (std::size_t i = 3; i <= 9; ++i) {
    {
      const std::lock_guard lock(nodes.at_server.mutex);
      for (InMessage& message : nodes.at_server.messages)
        message.allowance.reset();
    }
    ASSERT_TRUE(nodes.at_server.wait_messages(i)) << i;
  }
  for (const InMessage& message : nodes.at_server.messages)
    EXPECT_TRUE(is_numbered(message));
}

TEST(Node, SmallMessagesOvertakeALargeOne) {
  TwoNodes nodes;
  const Peer server = nodes.connect();
  server.send(numbered_message(1, std::size_t{256} << 20));
  const auto start = std::chrono::steady_clock::now();
  server.send(numbered_message(2, 4));
  ASSERT_TRUE(nodes.at_server.wait_messages(1));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(nodes.at_server.messages[0].envelope.request, 2u);
  // 5 ms on a machine of its own; this one has other things to do.
  EXPECT_LT(waited, 500ms);
  ASSERT_TRUE(nodes.at_server.wait_messages(2));
}

TEST(Node, WhatTheReceiverThrowsEndsTheSession) {
  TwoNodes nodes;
  nodes.at_server.answer_with(
      [](const Peer&, InMessage) { throw std::runtime_error("no taste for it"); });
  std::vector<std::string> lines;
  const auto scope =
      set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  nodes.connect().send(numbered_message(1, 10));
  ASSERT_TRUE(nodes.at_server.wait_losses(1));
  EXPECT_EQ(nodes.at_server.losses[0].why, "no taste for it");
  EXPECT_TRUE(nodes.at_client.wait_losses(1));
  nodes.server.reset();
  nodes.client.reset();
  ASSERT_GE(lines.size(), 1u);
  EXPECT_NE(
      lines[0].find("because its receiver threw: no taste for it"), std::string::npos)
      << lines[0];
}

TEST(Node, NobodyThereIsATimeoutThatSaysSo) {
  Recorder recorder;
  Node node(
      {.name = "client", .job = "test", .security = Security::insecure_loopback()},
      recorder);
  Address nobody;
  {
    const auto socket = listen_at(resolve(Address::tcp("127.0.0.1", 0)).front(), 1);
    nobody = local_endpoint(socket.get()).address();
  }
  try {
    node.connect("server", nobody, Deadline::after(100ms));
    FAIL();
  } catch (const TimeoutError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("within 100 ms, got Connection refused"), std::string::npos)
        << what;
    // Two that are protected differently may not be able to say so.
    EXPECT_NE(what.find("as this node is, by nothing (insecure-l"), std::string::npos)
        << what;
  }
}

TEST(Node, DialsNoLongerThanItsCallerWants) {
  TwoNodes nodes;
  const Address nobody = [] {
    Recorder recorder;
    const Node gone(
        {.name = "gone",
         .security = Security::insecure_loopback(),
         .listen = {Address::tcp("127.0.0.1", 0)}},
        recorder);
    return gone.addresses().front();
  }();
  int asked = 0;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(
      nodes.client->connect(
          "gone",
          nobody,
          soon(),
          [&] {
            if (++asked == 3)
              throw PeerError(4, "[net] expected in this test");
          }),
      PeerError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  const Peer server = nodes.connect();  // it goes on with others
  server.send(numbered_message(1, 10));
  EXPECT_TRUE(nodes.at_server.wait_messages(1));
}

// In a network of its own that has one port for all who dial; what connect() threw.
int dial_ones_own_port() {
  constexpr int kNoRights = 77;
  if (::unshare(CLONE_NEWNET) != 0)
    return kNoRights;
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::ofstream ports("/proc/sys/net/ipv4/ip_local_port_range");
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &loopback) != 0 ||
      !(ports << "40000 40000" << std::flush))
    return kNoRights;
  Recorder recorder;
  Node node(
      {.name = "client", .job = "test", .security = Security::insecure_loopback()},
      recorder);
  try {
    node.connect("server", Address::tcp("127.0.0.1", 40000), Deadline::after(300ms));
    return 1;
  } catch (const TimeoutError&) {
    return 0;
  } catch (const Error&) {
    return 2;
  }
}

TEST(NodeProcs, DoesNotTakeItsOwnSocketForANode) {
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(dial_ones_own_port());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "no right to make a network namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Node, WaitsForANodeThatComesLater) {
  Recorder at_client, at_server;
  const NodeOptions options{.job = "test", .security = Security::insecure_loopback()};
  NodeOptions mine = options, theirs = options;
  mine.name = "client";
  theirs.name = "server";
  theirs.listen = {Address::unix_at(abstract_name())};
  Node client(mine, at_client);
  std::optional<Node> server;
  std::thread later([&] {
    std::this_thread::sleep_for(200ms);
    server.emplace(theirs, at_server);
  });
  EXPECT_TRUE(client.connect("server", theirs.listen[0], soon()));
  later.join();
}

/// What the server answers to a client that differs in something.
std::string answer_to(
    const TwoNodes::Change& change, const TwoNodes::Change& server_change = {}) {
  TwoNodes nodes(Security::insecure_loopback(), server_change);
  const auto scope = set_log_sink([](std::string_view) {});
  Recorder recorder;
  NodeOptions options{
      .name = "client", .job = "test", .security = Security::insecure_loopback()};
  change(options);
  Node other(options, recorder);
  try {
    other.connect(
        options.name == "lost" ? "elsewhere" : "server",
        nodes.server->addresses()[0],
        soon());
  } catch (const TimeoutError&) {
    return "timeout";
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Node, StrangersAreRefusedWithAReason) {
  EXPECT_EQ(answer_to([](NodeOptions&) {}), "");
  EXPECT_NE(
      answer_to([](NodeOptions& o) { o.job = "other"; }).find("job \"other\""),
      std::string::npos);
  EXPECT_NE(
      answer_to([](NodeOptions& o) { o.incarnation = 4; }).find("a start that is over"),
      std::string::npos);
  EXPECT_NE(
      answer_to([](NodeOptions& o) {
        o.name = "lost";
      }).find("looks for \"elsewhere\""),
      std::string::npos);
  const auto roster = [](NodeOptions& o) { o.roster = {"client", "friend"}; };
  EXPECT_EQ(answer_to([](NodeOptions&) {}, roster), "");
  EXPECT_NE(
      answer_to([](NodeOptions& o) { o.name = "foe"; }, roster).find("on the roster"),
      std::string::npos);
  EXPECT_NE(
      answer_to(
          [](NodeOptions& o) { o.security = Security::job_key(JobKey::random()); }),
      "");
}

TEST(Node, WhoIsProtectedInAnotherWayIsToldAtOnce) {
  const auto key = [](NodeOptions& o) {
    o.security = Security::job_key(JobKey::random());
  };
  const auto nothing = [](NodeOptions&) {};
  const std::string to_plain = answer_to(nothing, key);
  EXPECT_NE(to_plain.find("got one that speaks TLS; protect all"), std::string::npos)
      << to_plain;
  const std::string to_keyed = answer_to(key, nothing);
  EXPECT_NE(to_keyed.find("got one that speaks no TLS; protect"), std::string::npos)
      << to_keyed;
}

TEST(Node, DoesNotTalkToItself) {
  TwoNodes nodes;
  const auto quiet = set_log_sink([](std::string_view) {});
  EXPECT_THROW(
      nodes.server->connect("server", nodes.server->addresses()[0], soon()), Error);
}

TEST(Node, PlainBytesNeverLeaveTheMachine) {
  Recorder recorder;
  NodeOptions options{
      .name = "n", .job = "j", .security = Security::insecure_loopback()};
  options.listen = {Address::tcp("0.0.0.0", 0)};
  EXPECT_THROW(Node(options, recorder), InvalidArgument);
  options.listen.clear();
  Node node(options, recorder);
  EXPECT_THROW(
      node.connect("x", Address::tcp("192.0.2.1", 9), soon()), InvalidArgument);
  NodeOptions none{.name = "n", .job = "j", .listen = {Address::tcp("127.0.0.1", 0)}};
  EXPECT_THROW(Node(none, recorder), InvalidArgument);
}

}  // namespace
}  // namespace trireme::net
