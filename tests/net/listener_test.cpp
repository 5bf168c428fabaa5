// A listener whose process has no descriptors left.
#include "trireme/net/listener.h"

#include <atomic>
#include <cerrno>
#include <future>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

namespace {
std::atomic<bool> no_descriptors{false};
std::atomic<int> tries{0};
}  // namespace

// Stands before the system's, as if the limit of open files had been reached.
extern "C" int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  ++tries;
  if (no_descriptors) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, fd, address, length, flags));
}

namespace trireme::net {
namespace {

using namespace std::chrono_literals;

TEST(Listener, TriesTenTimesASecondWhileDescriptorsAreShort) {
  Reactor reactor;
  std::atomic<int> taken{0};
  const auto listener = std::make_shared<Listener>(
      reactor,
      listen_at(resolve(Address::tcp("127.0.0.1", 0)).front(), 100),
      [&](FileDescriptor) { ++taken; });
  reactor.post([&] { reactor.watch(listener->fd(), listener); });
  const Endpoint there = resolve(listener->address()).front();
  no_descriptors = true;
  const int before = tries;
  std::vector<FileDescriptor> dialers;
  for (int i = 0; i < 50; ++i) {
    dialers.emplace_back(::socket(there.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        ::connect(
            dialers.back().get(),
            reinterpret_cast<const sockaddr*>(&there.storage),
            there.length),
        0);
    std::this_thread::sleep_for(1ms);  // an event of its own
  }
  std::this_thread::sleep_for(600ms);
  EXPECT_LT(tries - before, 20);
  no_descriptors = false;
  for (int i = 0; i < 5000 && taken < 50; ++i)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(taken, 50);
  std::promise<void> forgotten;
  reactor.post([&] {
    reactor.forget(listener->fd());
    forgotten.set_value();
  });
  forgotten.get_future().wait();
}

}  // namespace
}  // namespace trireme::net
