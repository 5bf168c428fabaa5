// A peer that was written by hand, to say what no node would.
#include "trireme/net/line.h"

#include <atomic>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/net/checksum.h"
#include "two_nodes.h"

namespace trireme::net {
namespace {

using namespace std::chrono_literals;

/// Speaks the protocol over a blocking socket, as well or as badly as a test wants.
class HandMade {
 public:
  explicit HandMade(const Address& address) {
    const Endpoint endpoint = resolve(address).front();
    EXPECT_EQ(
        ::connect(
            socket_.get(),
            reinterpret_cast<const sockaddr*>(&endpoint.storage),
            endpoint.length),
        0);
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  /// One who has been dialled.
  explicit HandMade(FileDescriptor socket) : socket_(std::move(socket)) {}
  void say(
      Frame frame, const std::string& header = "", const std::string& payload = "") {
    frame.checked = true;
    frame.header_bytes = static_cast<std::uint32_t>(header.size());
    frame.payload_bytes = static_cast<std::uint32_t>(payload.size());
    frame.header_check = crc32c(header);
    frame.payload_check = crc32c(payload);
    const FrameHead head = encode(frame);
    raw({reinterpret_cast<const char*>(head.data()), head.size()});
    raw(header + payload);
  }
  void raw(const std::string& bytes) {
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  static Hello greeting() {
    return {
        .job = "test", .from = "hand", .to = "server", .session = {7, 7}, .limits = {}};
  }
  void greet(const Hello& hello = greeting()) {
    say({.kind = FrameKind::Hello}, encode(hello));
  }
  /// The kind of the next frame, and its header; 0 when the connection was closed.
  int hear(std::string* header = nullptr) {
    FrameHead head;
    if (!read(head.data(), head.size()))
      return 0;
    const Frame frame = decode(head, {});
    std::string rest(frame.header_bytes + frame.payload_bytes, '\0');
    if (!read(rest.data(), rest.size()))
      return 0;
    if (header != nullptr)
      *header = rest.substr(0, frame.header_bytes);
    return static_cast<int>(frame.kind);
  }
  /// Whether the node closes this connection, whatever it says before.
  bool is_closed() {
    for (int i = 0; i < 20; ++i)
      if (hear() == 0)
        return true;
    return false;
  }

 private:
  bool read(void* into, std::size_t bytes) {
    return bytes == 0 || ::recv(socket_.get(), into, bytes, MSG_WAITALL) ==
                             static_cast<ssize_t>(bytes);
  }
  FileDescriptor socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

class LineTest : public ::testing::Test {
 protected:
  // Several tests make noise on purpose.
  LogSinkScope quiet_ = set_log_sink([](std::string_view) {});
  TwoNodes nodes_{Security::insecure_loopback(), [](NodeOptions& options) {
                    options.limits.small_window = 4000;
                    options.reconnect = 100ms;
                  }};
  HandMade hand_{nodes_.server->addresses().front()};
};

TEST_F(LineTest, AHandMadePeerIsWelcome) {
  hand_.greet();
  std::string header;
  EXPECT_EQ(hand_.hear(&header), static_cast<int>(FrameKind::Welcome));
  EXPECT_EQ(decode_hello(header).from, "server");
  hand_.say({.kind = FrameKind::Message, .sequence = 1, .body = 3}, "n", "abc");
  ASSERT_TRUE(nodes_.at_server.wait_messages(1));
  hand_.say({.kind = FrameKind::Leave, .ack = 0});
  ASSERT_TRUE(nodes_.at_server.wait_losses(1));
  EXPECT_EQ(nodes_.at_server.losses[0].ending, Ending::Left);
}

// An answer just after one ping must not put the next one off: the other side waits for
// half of a heartbeat, and not much may be lost of that.
TEST_F(LineTest, NoMoreThanAThirdOfAHeartbeatPassesWithoutAWord) {
  TwoNodes nodes(Security::insecure_loopback(), [](NodeOptions& options) {
    options.heartbeat = 2s;
  });
  HandMade hand(nodes.server->addresses().front());
  hand.greet();
  EXPECT_EQ(hand.hear(), static_cast<int>(FrameKind::Welcome));
  EXPECT_EQ(hand.hear(), static_cast<int>(FrameKind::Ping));
  std::this_thread::sleep_for(240ms);
  hand.say({.kind = FrameKind::Message, .sequence = 1, .body = 3}, "n", "abc");
  EXPECT_EQ(hand.hear(), static_cast<int>(FrameKind::Ack));
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(hand.hear(), static_cast<int>(FrameKind::Ping));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 667ms);
  }
}

TEST_F(LineTest, WhoDoesNotGreetFirstIsRefused) {
  hand_.say({.kind = FrameKind::Message, .sequence = 1, .body = 3}, "n", "abc");
  EXPECT_EQ(hand_.hear(), static_cast<int>(FrameKind::Refuse));
  EXPECT_TRUE(hand_.is_closed());
  EXPECT_TRUE(nodes_.at_server.messages.empty());
}

TEST_F(LineTest, AnotherVersionIsToldSo) {
  FrameHead head = encode(Frame{.kind = FrameKind::Hello});
  head[2] = std::byte{2};
  hand_.raw({reinterpret_cast<const char*>(head.data()), head.size()});
  std::string header;
  EXPECT_EQ(hand_.hear(&header), static_cast<int>(FrameKind::Refuse));
  EXPECT_NE(header.find("got version 2"), std::string::npos) << header;
}

TEST_F(LineTest, WhatNoPeerSendsEndsTheConnection) {
  const auto closes = [this](const auto& misbehave) {
    HandMade hand(nodes_.server->addresses().front());
    Hello hello = HandMade::greeting();
    hello.session = random_session_id();
    hand.greet(hello);
    EXPECT_EQ(hand.hear(), static_cast<int>(FrameKind::Welcome));
    misbehave(hand);
    return hand.is_closed();
  };
  const std::string kilobytes(3000, 'x');
  EXPECT_TRUE(closes([](HandMade& hand) { hand.greet(); }));
  EXPECT_TRUE(
      closes([](HandMade& hand) { hand.say({.kind = FrameKind::Ping, .ack = 5}); }));
  EXPECT_TRUE(
      closes([](HandMade& hand) { hand.say({.kind = FrameKind::Ack, .id = 1}); }));
  EXPECT_TRUE(closes(
      [](HandMade& hand) { hand.say({.kind = FrameKind::Message, .sequence = 2}); }));
  EXPECT_TRUE(closes([](HandMade& hand) {
    hand.say({.kind = FrameKind::Chunk, .sequence = 1, .id = 1}, "", "x");
  }));
  EXPECT_TRUE(closes([](HandMade& hand) {
    hand.say(
        {.kind = FrameKind::Message, .sequence = 1, .body = std::uint64_t{1} << 60});
  }));
  // More than its window: the recorder keeps what it gets.
  EXPECT_TRUE(closes([&](HandMade& hand) {
    for (std::uint64_t i = 1; i <= 2; ++i)
      hand.say(
          {.kind = FrameKind::Message, .sequence = i, .body = kilobytes.size()},
          "n",
          kilobytes);
  }));
}

TEST_F(LineTest, PeersThatComeAndGoDoNotFillTheLog) {
  std::atomic<int> lines{0};
  const LogSinkScope sink = set_log_sink([&](std::string_view) { ++lines; });
  set_log_levels({.general = LogLevel::Info});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) {
    HandMade hand(nodes_.server->addresses().front());
    Hello hello = HandMade::greeting();
    hello.session = random_session_id();
    hand.greet(hello);
    EXPECT_EQ(hand.hear(), static_cast<int>(FrameKind::Welcome));
  }
  EXPECT_TRUE(nodes_.at_server.wait_losses(300));
  set_log_levels({});
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  EXPECT_GE(lines, 8);
  EXPECT_LE(lines, 10 + 10 * seconds.count());
}

TEST_F(LineTest, ASessionThatNobodyKnowsIsNotResumed) {
  Hello hello = HandMade::greeting();
  hello.resumed = true;
  hand_.greet(hello);
  std::string header;
  EXPECT_EQ(hand_.hear(&header), static_cast<int>(FrameKind::Refuse));
  EXPECT_NE(header.find("connect anew"), std::string::npos) << header;
}

// A session that is not known cannot have received anything.
TEST_F(LineTest, AWelcomeThatCannotBeEndsTheCall) {
  const FileDescriptor listener =
      listen_at(resolve(Address::tcp("127.0.0.1", 0)).front(), 1);
  std::thread acceptor([fd = listener.get()] {
    pollfd ready{fd, POLLIN, 0};
    ::poll(&ready, 1, 5000);
    HandMade hand(FileDescriptor(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC)));
    std::string header;
    EXPECT_EQ(hand.hear(&header), static_cast<int>(FrameKind::Hello));
    Hello hello = decode_hello(header);
    hello.from = "hand";
    hello.received = 5;
    hand.say({.kind = FrameKind::Welcome}, encode(hello));
    EXPECT_TRUE(hand.is_closed());
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(
      nodes_.client->connect(
          "hand", local_endpoint(listener.get()).address(), Deadline::after(5s)),
      Error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 4s);
  acceptor.join();
}

TEST_F(LineTest, ASessionIsNotForAnotherName) {
  hand_.greet();
  EXPECT_EQ(hand_.hear(), static_cast<int>(FrameKind::Welcome));
  HandMade thief(nodes_.server->addresses().front());
  Hello hello = HandMade::greeting();
  hello.from = "thief";
  hello.resumed = true;
  thief.greet(hello);
  EXPECT_EQ(thief.hear(), static_cast<int>(FrameKind::Refuse));
}

}  // namespace
}  // namespace trireme::net
