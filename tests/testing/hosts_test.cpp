#include "trireme/testing/hosts.h"

#include <sys/wait.h>

#include <gtest/gtest.h>

#include "echo.h"

namespace trireme::testing {
namespace {

class HostsProcs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = Hosts::missing(); !why.empty())
      GTEST_SKIP() << why;
  }
};

std::optional<std::string> sent(const Datagrams& from, const Datagrams& to, int host) {
  from.send(Hosts::address(host), "hello");
  return to.receive();
}

// The switch takes a moment until it uses a cable.
bool sent_soon(const Datagrams& from, const Datagrams& to, int host) {
  for (int i = 0; i < 50; ++i)
    if (sent(from, to, host))
      return true;
  return false;
}

TEST_F(HostsProcs, ReachOneAnotherUntilTheCableIsPulled) {
  Hosts hosts({.hosts = 3});
  ASSERT_EQ(hosts.size(), 3);
  const Datagrams first(hosts.network(0)), second(hosts.network(1)),
      third(hosts.network(2));
  EXPECT_EQ(sent(first, third, 2), "hello");
  EXPECT_EQ(sent(third, second, 1), "hello");
  hosts.set_connected(2, false);
  EXPECT_EQ(sent(first, third, 2), std::nullopt);
  EXPECT_EQ(sent(first, second, 1), "hello");
  hosts.set_connected(2, true);
  EXPECT_TRUE(sent_soon(first, third, 2));
  hosts.set_device(0, false);
  EXPECT_FALSE(first.send(Hosts::address(1), "hello"));
  hosts.set_device(0, true);
  EXPECT_TRUE(sent_soon(first, second, 1));
}

TEST_F(HostsProcs, OfAnotherTestAreOutOfReach) {
  const Hosts mine({.hosts = 2}), theirs({.hosts = 2});
  const Datagrams here(mine.network(0)), there(theirs.network(1));
  EXPECT_EQ(sent(here, there, 1), std::nullopt);
}

TEST_F(HostsProcs, MayHaveARelayInBetween) {
  Hosts hosts({.hosts = 2, .relayed = true});
  const Datagrams first(hosts.network(0)), second(hosts.network(1));
  EXPECT_EQ(sent(first, second, 1), "hello");
  hosts.set_connected(0, false);
  EXPECT_EQ(sent(first, second, 1), std::nullopt);
  EXPECT_EQ(hosts.relay().lost(), 1);
}

TEST_F(HostsProcs, MayTakeLongerPacketsThanOthers) {
  const Hosts hosts({.hosts = 2, .mtu = {9000, 1500}});
  const Datagrams first(hosts.network(0)), second(hosts.network(1));
  const std::string longer(4000, 'x');
  EXPECT_TRUE(first.send(Hosts::address(1), longer));
  EXPECT_EQ(second.receive(), std::nullopt) << "the switch has no room for it";
  EXPECT_FALSE(second.send(Hosts::address(0), longer));
}

}  // namespace
}  // namespace trireme::testing
