#include "trireme/testing/packet_relay.h"

#include <thread>

#include <gtest/gtest.h>

#include "echo.h"
#include "trireme/testing/net_namespace.h"

namespace trireme::testing {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class PacketRelayProcs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = NetNamespace::missing(); !why.empty())
      GTEST_SKIP() << why;
    for (int host = 0; host < 2; ++host) {
      hosts_.push_back(NetNamespace::make());
      relay_.add_host(hosts_.back(), "tun0", host == 0 ? kLeft : kRight);
      sockets_.emplace_back(hosts_.back());
    }
    relay_.start();
  }

  std::optional<std::string> carried(const std::string& words) {
    EXPECT_TRUE(sockets_[0].send(kRight, words));
    return sockets_[1].receive();
  }

  static constexpr const char* kLeft = "10.3.0.1";
  static constexpr const char* kRight = "10.3.0.2";
  PacketRelay relay_;
  std::vector<NetNamespace> hosts_;
  std::vector<Datagrams> sockets_;
};

TEST_F(PacketRelayProcs, CarriesInOrderBothWays) {
  for (const char* words : {"one", "two", "three"})
    EXPECT_TRUE(sockets_[0].send(kRight, words));
  for (const char* words : {"one", "two", "three"})
    EXPECT_EQ(sockets_[1].receive(), words);
  EXPECT_TRUE(sockets_[1].send(kLeft, "back"));
  EXPECT_EQ(sockets_[0].receive(), "back");
  EXPECT_EQ(relay_.lost(), 0);
  EXPECT_GT(relay_.passed(), 0);
}

TEST_F(PacketRelayProcs, HoldsThemUp) {
  relay_.set_delay(milliseconds(60));
  const auto start = Clock::now();
  EXPECT_EQ(carried("slow"), "slow");
  EXPECT_GE(Clock::now() - start, milliseconds(59));
}

TEST_F(PacketRelayProcs, LosesSome) {
  relay_.set_loss(5000);
  int came = 0;
  for (int i = 0; i < 200; ++i)
    EXPECT_TRUE(sockets_[0].send(kRight, "perhaps"));
  while (sockets_[1].receive())
    ++came;
  EXPECT_GT(came, 50);
  EXPECT_LT(came, 150);
  EXPECT_EQ(came + relay_.lost(), 200);
}

TEST_F(PacketRelayProcs, SwallowsWhatIsTooLong) {
  relay_.set_longest(1280);
  EXPECT_TRUE(sockets_[0].send(kRight, std::string(1400, 'x')));
  EXPECT_EQ(carried("short"), "short") << "and nothing before it";
}

TEST_F(PacketRelayProcs, CutsAndHeals) {
  relay_.set_connected(1, false);
  EXPECT_TRUE(sockets_[0].send(kRight, "lost"));
  EXPECT_TRUE(sockets_[1].send(kLeft, "lost as well"));
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (relay_.lost() < 2 && Clock::now() < end)
    std::this_thread::sleep_for(milliseconds(1));
  relay_.set_connected(1, true);
  EXPECT_EQ(carried("here"), "here");
  EXPECT_FALSE(sockets_[0].receive(false));
}

}  // namespace
}  // namespace trireme::testing
