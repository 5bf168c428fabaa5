// What a node does with those who should not be there.
#include "trireme/net/node_core.h"

#include <algorithm>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/log.h"
#include "two_nodes.h"

namespace trireme::net {
namespace {

using namespace std::chrono_literals;

FileDescriptor dial(const Address& address) {
  const Endpoint endpoint = resolve(address).front();
  FileDescriptor socket(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(
          socket.get(),
          reinterpret_cast<const sockaddr*>(&endpoint.storage),
          endpoint.length) != 0)
    return FileDescriptor();
  return socket;
}

bool is_closed_within(int fd, std::chrono::milliseconds time) {
  timeval limit{.tv_sec = time.count() / 1000, .tv_usec = time.count() % 1000 * 1000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  char bytes[4096];
  for (int i = 0; i < 100; ++i) {
    const auto count = ::recv(fd, bytes, sizeof(bytes), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
      return true;
    if (count < 0)
      return false;
  }
  return false;
}

/// A server, a client with a session, and what is logged.
class NodeCoreTest : public ::testing::TestWithParam<bool> {
 protected:
  static Security security() {
    static const JobKey key = JobKey::random();
    return GetParam() ? Security::job_key(key) : Security::insecure_loopback();
  }
  const Address& address() const { return address_; }
  void expect_work() {
    const std::size_t before = nodes_.at_server.messages.size();
    server_.send(numbered_message(1, 100'000));
    EXPECT_TRUE(nodes_.at_server.wait_messages(before + 1));
  }
  std::mutex mutex_;
  std::vector<std::string> lines_;
  LogSinkScope sink_ = set_log_sink([this](std::string_view line) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  });
  TwoNodes nodes_{security(), [](NodeOptions& options) {
                    options.handshake = 300ms;
                    options.strangers = 32;
                  }};
  Address address_ = nodes_.server->addresses().front();
  Peer server_ = nodes_.connect();
};

TEST_P(NodeCoreTest, TheJobGoesOnThroughAFloodOfConnections) {
  std::atomic<bool> stop{false};
  std::thread flood([&] {
    for (int i = 0; i < 10'000 && !stop; ++i)
      dial(address());
  });
  for (int i = 0; i < 20; ++i)
    expect_work();
  flood.join();
  expect_work();
  // The log has not become a flood of its own: a line a second or less.
  const std::lock_guard lock(mutex_);
  EXPECT_LT(lines_.size(), 60u);
}

// Ten thousand who connect and stay for a while, as many as a host lets them, silent or
// with a word that leads nowhere: those of the job come in beside them.
TEST_P(NodeCoreTest, AFloodOfConnectionsDoesNotKeepThePeersOut) {
  for (const std::string word : {"", "\x16"}) {
    TwoNodes nodes(security());
    std::atomic<bool> over{false};
    std::thread flood([&] {
      std::deque<FileDescriptor> open;
      for (int i = 0; i < 10'000; ++i) {
        open.push_back(dial(nodes.server->addresses().front()));
        ::send(open.back().get(), word.data(), word.size(), MSG_NOSIGNAL);
        if (open.size() > 300)
          open.pop_front();
      }
      over = true;
    });
    std::vector<std::chrono::milliseconds> times;
    while (!over) {
      const auto start = std::chrono::steady_clock::now();
      nodes.connect().drop();
      times.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - start));
    }
    flood.join();
    EXPECT_GE(times.size(), 3u);
    const auto slowest = *std::max_element(times.begin(), times.end());
    EXPECT_LT(slowest, 2s) << times.size();  // 40 ms on an idle machine
  }
}

TEST_P(NodeCoreTest, ThoseWhoAreGoneAtOnceDoNotFillTheLog) {
  std::promise<void> all_gone;
  nodes_.at_server.answer_with(
      [gone = all_gone.get_future().share()](const Peer&, const InMessage&) {
        gone.wait_for(10s);
      });
  server_.send(numbered_message(1, 1));
  for (int i = 0; i < 300; ++i) {
    const FileDescriptor socket = dial(address());
    const linger reset{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  all_gone.set_value();
  for (int i = 0; i < 5000 && nodes_.server->turned_away() < 300; ++i)
    std::this_thread::sleep_for(1ms);
  EXPECT_GE(nodes_.server->turned_away(), 300u);
  const std::lock_guard lock(mutex_);
  EXPECT_LT(lines_.size(), 20u);
}

TEST_P(NodeCoreTest, ConnectionsThatSayNothingAreClosed) {
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 100; ++i)
    silent.push_back(dial(address()));
  // Beyond 32 the oldest go at once, the rest when their time is over.
  for (const FileDescriptor& socket : silent)
    EXPECT_TRUE(is_closed_within(socket.get(), 5s));
  EXPECT_GE(nodes_.server->turned_away(), 100u);
  expect_work();
}

TEST_P(NodeCoreTest, ADripOfBytesDoesNotKeepAHandshakeOpen) {
  const FileDescriptor socket = dial(address());
  const auto start = std::chrono::steady_clock::now();
  std::thread drip([fd = socket.get()] {
    // The first bytes of a greeting, and of a TLS record: either may go on like this.
    for (int i = 0;
         i < 100 && ::send(fd, i == 0 ? "\x16" : "\x03", 1, MSG_NOSIGNAL) == 1;
         ++i)
      std::this_thread::sleep_for(50ms);
  });
  EXPECT_TRUE(is_closed_within(socket.get(), 5s));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
  drip.join();
  expect_work();
}

TEST_P(NodeCoreTest, GarbageIsTurnedAwayWithOneLine) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.0\r\n\r\n"),
        std::string(5000, 'x'),
        std::string(64, '\0')}) {
    const FileDescriptor socket = dial(address());
    ::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(is_closed_within(socket.get(), 5s));
  }
  expect_work();
  const std::lock_guard lock(mutex_);
  ASSERT_GE(lines_.size(), 1u);
  EXPECT_NE(
      lines_[0].find("turned away a connection from tcp://127.0.0.1"),
      std::string::npos)
      << lines_[0];
}

INSTANTIATE_TEST_SUITE_P(Ways, NodeCoreTest, ::testing::Bool(), [](const auto& way) {
  return way.param ? "Tls" : "Plain";
});

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::getpagesize());
}

// Both ends are in this process, so it is twice what a server has.
TEST(NodeCore, AThousandIdleConnectionsTakeLittleMemory) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 3000)
    GTEST_SKIP() << "only " << files.rlim_cur << " files may be open here";
  TwoNodes nodes(Security::job_key(JobKey::random()));
  nodes.connect();
  const std::size_t before = resident_bytes();
  std::vector<Peer> peers;
  for (int i = 0; i < 1000; ++i)
    peers.push_back(nodes.connect());
  const std::size_t used = resident_bytes() - before;
  RecordProperty("kilobytes", static_cast<int>(used >> 10));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(used, std::size_t{128} << 20);
#endif
}

}  // namespace
}  // namespace trireme::net
