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
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_THROW(address_towards("no-such-host.invalid"), InvalidArgument);
}

}  // namespace
}  // namespace trireme::comm
