#include "trireme/testing/net_namespace.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/testing/netlink.h"

namespace trireme::testing {
namespace {

class NetNamespaceProcs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = NetNamespace::missing(); !why.empty())
      GTEST_SKIP() << why;
  }

  static ino_t here() {
    struct stat status {};
    EXPECT_EQ(::fstat(NetNamespace::current().fd(), &status), 0);
    return status.st_ino;
  }
};

TEST_F(NetNamespaceProcs, IsLeftAtTheEndOfTheScope) {
  const ino_t before = here();
  const NetNamespace made = NetNamespace::make();
  EXPECT_EQ(here(), before);
  ino_t inside = 0, of_thread = 0;
  {
    const InNamespace in(made);
    inside = here();
    std::thread([&] { of_thread = here(); }).join();
  }
  EXPECT_NE(inside, before);
  EXPECT_EQ(of_thread, inside) << "threads begin where they were started";
  EXPECT_EQ(here(), before);
}

TEST_F(NetNamespaceProcs, HasPortsOfItsOwn) {
  const auto listen = [] {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(29500);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0)
        << "the loopback device is up, and the port is free";
    return socket;
  };
  const NetNamespace one = NetNamespace::make(), other = NetNamespace::make();
  const InNamespace in(one);
  const FileDescriptor first = listen();
  const InNamespace in_other(other);
  const FileDescriptor second = listen();
}

}  // namespace
}  // namespace trireme::testing
