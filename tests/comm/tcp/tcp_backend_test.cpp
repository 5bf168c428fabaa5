#include "trireme/comm/tcp/tcp_backend.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/comm/backend.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

TEST(TcpBackend, IsKnownByName) {
  const auto known = backends();
  EXPECT_NE(std::find(known.begin(), known.end(), "tcp"), known.end());
}

TEST(TcpBackend, FindsTheAddressThatLeadsSomewhere) {
  const TcpPlace place = tcp_place("127.0.0.1");
  EXPECT_EQ(place.listen, net::Address::tcp("127.0.0.1", 0));
  EXPECT_EQ(place.host, "127.0.0.1");
  EXPECT_EQ(tcp_place("[127.0.0.1]").host, "127.0.0.1");
  EXPECT_THROW(tcp_place("no-such-host.invalid"), InvalidArgument);
}

}  // namespace
}  // namespace trireme::comm
