// Four hosts in trouble: a chain has two in the middle, whose neighbours hear of a loss
// from both sides.
#include "hosts_network_case.h"

namespace trireme::comm {
namespace {

/// One rank a host, or two at the ends.
class FourHostsProcs : public HostsNetworkCase {
 protected:
  static constexpr int kMiddle = 1;
  const std::vector<std::vector<int>> layouts_ = {{1, 1, 1, 1}, {2, 1, 1, 2}};
};

TEST_F(FourHostsProcs, HaveTheBitsOfOneProcess) {
  const Hosts hosts({.hosts = 4});
  for (const auto& ranks : layouts_)
    expect_right(HostJob(hosts, ranks));
}

TEST_F(FourHostsProcs, LatencyAndLossChangeNoBit) {
  Hosts hosts({.hosts = 4, .relayed = true});
  hosts.relay().set_delay(2ms);
  hosts.relay().set_loss(100);  // 1 %
  for (const auto& ranks : layouts_) {
    const int64_t before = hosts.relay().lost();
    expect_right(HostJob(hosts, ranks));
    EXPECT_GT(hosts.relay().lost(), before + 10);
  }
}

TEST_F(FourHostsProcs, ACutThatHealsInTimeChangesNoBit) {
  for (const auto& ranks : layouts_) {
    Hosts hosts({.hosts = 4, .relayed = true});
    expect_healed(hosts, ranks, kMiddle);
  }
}

TEST_F(FourHostsProcs, ACutThatStaysIsToldOnBothSides) {
  for (const auto& ranks : layouts_) {
    Hosts hosts({.hosts = 4});
    expect_heard(endings_after(hosts, ranks, kMiddle, [&](Processes&) {
      hosts.set_connected(kMiddle, false);
    }));
  }
}

TEST_F(FourHostsProcs, AHostThatVanishesIsNamed) {
  for (const auto& ranks : layouts_) {
    Hosts hosts({.hosts = 4});
    expect_vanished(hosts, ranks, kMiddle);
  }
}

TEST_F(FourHostsProcs, MayTakePacketsOfDifferentLengths) {
  const Hosts hosts({.hosts = 4, .mtu = {9000, 1500, 1280, 4000}});
  for (const auto& ranks : layouts_)
    expect_right(HostJob(hosts, ranks));
}

}  // namespace
}  // namespace trireme::comm
