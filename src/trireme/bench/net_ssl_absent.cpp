// What a build without OpenSSL has instead of its loop.
#include "trireme/bench/net_end.h"
#include "trireme/core/error.h"

namespace trireme::bench {

std::unique_ptr<NetEnd> ssl_end(FileDescriptor, net::Side, const net::JobKey&) {
  throw NotSupported(
      "[bench] expected a build with OpenSSL, got one without; install libssl-dev and "
      "build again");
}

}  // namespace trireme::bench
