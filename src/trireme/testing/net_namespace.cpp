#include "trireme/testing/net_namespace.h"

#include <cerrno>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/testing/netlink.h"

namespace trireme::testing {

std::string NetNamespace::missing() {
  if (::geteuid() != 0)
    return "network namespaces need root";
  const NetNamespace before = current();
  // Containers may forbid it to root, too.
  if (::unshare(CLONE_NEWNET) != 0)
    return "this root may not make network namespaces: " + errno_text(errno);
  before.enter();
  return {};
}

NetNamespace NetNamespace::current() {
  const int fd = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw InternalError(text(
        "[testing] expected to open the network namespace of this thread, got ",
        errno_text(errno)));
  return NetNamespace(fd);
}

NetNamespace NetNamespace::make() {
  const NetNamespace before = current();
  if (::unshare(CLONE_NEWNET) != 0)
    throw InternalError(text(
        "[testing] expected to make a network namespace, got ", errno_text(errno)));
  NetNamespace made = current();
  try {
    Netlink().set_up("lo", true);
  } catch (...) {
    before.enter();
    throw;
  }
  before.enter();
  return made;
}

void NetNamespace::enter() const {
  if (::setns(fd_.get(), CLONE_NEWNET) != 0)
    throw InternalError(text(
        "[testing] expected to enter a network namespace, got ", errno_text(errno)));
}

}  // namespace trireme::testing
