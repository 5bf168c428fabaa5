// Datagrams between hosts, for tests of what carries them.
#pragma once
#include <arpa/inet.h>
#include <chrono>
#include <cstring>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>

#include "trireme/core/error.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/testing/net_namespace.h"

namespace trireme::testing {

/// A socket of a host, for datagrams.
class Datagrams {
 public:
  static constexpr uint16_t kPort = 7;

  explicit Datagrams(const NetNamespace& host) : socket_(open_in(host)) {
    const sockaddr_in any = place("0.0.0.0");
    const timeval wait{.tv_sec = 0, .tv_usec = 400'000};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    // Too long is too long: the kernel must not cut them up.
    const int never = IP_PMTUDISC_DO;
    ::setsockopt(socket_.get(), IPPROTO_IP, IP_MTU_DISCOVER, &never, sizeof never);
    TRIREME_ASSERT(
        ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) ==
        0);
  }
  /// Whether the kernel has taken it.
  bool send(const std::string& to, const std::string& words) const {
    const sockaddr_in there = place(to);
    return ::sendto(
               socket_.get(),
               words.data(),
               words.size(),
               0,
               reinterpret_cast<const sockaddr*>(&there),
               sizeof there) == static_cast<ssize_t>(words.size());
  }
  /// The next one, if one comes within 400 ms, or is there with `wait` = false.
  std::optional<std::string> receive(bool wait = true) const {
    char bytes[16384];
    const ssize_t size =
        ::recv(socket_.get(), bytes, sizeof bytes, wait ? 0 : MSG_DONTWAIT);
    if (size < 0)
      return std::nullopt;
    return std::string(bytes, static_cast<size_t>(size));
  }

 private:
  static int open_in(const NetNamespace& host) {
    const InNamespace inside(host);
    return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  }
  static sockaddr_in place(const std::string& address) {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(kPort);
    there.sin_addr.s_addr = ::inet_addr(address.c_str());
    return there;
  }
  FileDescriptor socket_;
};

}  // namespace trireme::testing
