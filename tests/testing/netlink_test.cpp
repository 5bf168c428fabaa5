#include "trireme/testing/netlink.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <gtest/gtest.h>

#include "echo.h"
#include "trireme/core/error.h"
#include "trireme/testing/net_namespace.h"

namespace trireme::testing {
namespace {

class NetlinkProcs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = NetNamespace::missing(); !why.empty())
      GTEST_SKIP() << why;
  }
};

TEST_F(NetlinkProcs, MakesDevicesAsAsked) {
  const NetNamespace here = NetNamespace::make(), there = NetNamespace::make();
  const InNamespace inside(here);
  Netlink net;
  net.add_cable("left", "right", there.fd());
  net.add_bridge("bridge");
  net.join_bridge("left", "bridge");
  net.set_mtu("left", 9000);
  net.set_up("left", true);
  net.add_address("bridge", "10.1.2.3");
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq left{};
  std::strncpy(left.ifr_name, "left", IFNAMSIZ);
  ASSERT_EQ(::ioctl(socket.get(), SIOCGIFMTU, &left), 0);
  EXPECT_EQ(left.ifr_mtu, 9000);
  ASSERT_EQ(::ioctl(socket.get(), SIOCGIFFLAGS, &left), 0);
  EXPECT_NE(left.ifr_flags & IFF_UP, 0);
  net.set_up("left", false);
  ASSERT_EQ(::ioctl(socket.get(), SIOCGIFFLAGS, &left), 0);
  EXPECT_EQ(left.ifr_flags & IFF_UP, 0);
  ifreq bridge{};
  std::strncpy(bridge.ifr_name, "bridge", IFNAMSIZ);
  ASSERT_EQ(::ioctl(socket.get(), SIOCGIFADDR, &bridge), 0);
  sockaddr_in address{};
  std::memcpy(&address, &bridge.ifr_addr, sizeof address);
  EXPECT_EQ(address.sin_addr.s_addr, ::inet_addr("10.1.2.3"));
  EXPECT_NE(::if_nametoindex("left"), 0u);
  const InNamespace other(there);
  EXPECT_NE(::if_nametoindex("right"), 0u);
}

TEST_F(NetlinkProcs, SaysWhatTheKernelRefused) {
  const NetNamespace here = NetNamespace::make();
  const InNamespace inside(here);
  Netlink net;
  net.add_bridge("bridge");
  for (const auto& wrong : std::vector<std::function<void()>>{
           [&] { net.add_bridge("bridge"); },
           [&] { net.set_up("no-such", true); },
           [&] { net.set_mtu("bridge", -5); },
           [&] { net.limit_rate("no-such", 1'000'000); },
           [&] { net.add_address("bridge", "somewhere"); }})
    EXPECT_THROW(wrong(), InternalError);
  try {
    net.add_bridge("bridge");
  } catch (const InternalError& error) {
    EXPECT_NE(
        std::string(error.what()).find("make the bridge bridge"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::testing
