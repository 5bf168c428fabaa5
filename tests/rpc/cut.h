// Cuts the connections of this process, as a network may.
#pragma once
#include <sys/socket.h>
#include <unistd.h>

namespace trireme::rpc {

/// Shuts all sockets down that are connected; how many there were. Only for tests that
/// have no other ones.
inline int cut_connections() {
  int cut = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        ::shutdown(fd, SHUT_RDWR) == 0)
      ++cut;
  }
  return cut;
}

}  // namespace trireme::rpc
