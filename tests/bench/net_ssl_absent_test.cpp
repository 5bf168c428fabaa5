#include "net_ends.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchNetSslAbsent, SaysHowToGetIt) {
  EXPECT_THROW(
      ssl_end(FileDescriptor(), net::Side::Dialer, net::JobKey::random()),
      NotSupported);
}

}  // namespace
}  // namespace trireme::bench
