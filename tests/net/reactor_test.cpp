#include "trireme/net/reactor.h"

#include <algorithm>
#include <future>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace trireme::net {
namespace {

using namespace std::chrono_literals;

TEST(Reactor, RunsWhatIsPostedInOrderOnItsThread) {
  Reactor reactor;
  std::vector<int> order;
  std::promise<bool> done;
  for (int i = 0; i < 100; ++i)
    reactor.post([&order, i] { order.push_back(i); });
  reactor.post([&] { done.set_value(reactor.in_thread()); });
  EXPECT_TRUE(done.get_future().get());
  EXPECT_FALSE(reactor.in_thread());
  EXPECT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Reactor, CallsAtTheTimeAndInItsOrder) {
  Reactor reactor;
  std::vector<int> order;
  std::promise<void> done;
  const auto start = Reactor::Clock::now();
  reactor.post([&] {
    reactor.at(start + 30ms, [&] { order.push_back(2), done.set_value(); });
    reactor.at(start + 10ms, [&] { order.push_back(1); });
  });
  done.get_future().get();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_GE(Reactor::Clock::now() - start, 30ms);
}

/// Reads a byte a turn, and asks for more turns.
class OneByte : public Reactor::Handler {
 public:
  OneByte(Reactor& reactor, int fd) : reactor_(reactor), fd_(fd) {}
  void ready() override {
    char byte = 0;
    if (::recv(fd_, &byte, 1, MSG_DONTWAIT) != 1)
      return;
    text.push_back(byte);
    byte == '.' ? done.set_value(text) : reactor_.again(fd_);
  }
  std::string text;
  std::promise<std::string> done;

 private:
  Reactor& reactor_;
  int fd_;
};

TEST(Reactor, AHandlerGetsAnotherTurnWhenItAsks) {
  Reactor reactor;
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  const FileDescriptor a(fds[0]), b(fds[1]);
  const auto handler = std::make_shared<OneByte>(reactor, b.get());
  reactor.post([&] { reactor.watch(b.get(), handler); });
  ASSERT_EQ(::write(a.get(), "hello.", 6), 6);
  EXPECT_EQ(handler->done.get_future().get(), "hello.");
  reactor.stop();
  EXPECT_EQ(handler.use_count(), 1);
}

TEST(Reactor, WhatIsPostedAfterTheEndIsDropped) {
  Reactor reactor;
  reactor.stop();
  reactor.post([] { FAIL(); });
  reactor.stop();
}

}  // namespace
}  // namespace trireme::net
