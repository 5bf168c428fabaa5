// Where a node listens: an address as text and as the system wants it.
#pragma once
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

#include "trireme/core/file_descriptor.h"

namespace trireme::net {

/// One end point: "tcp://host:port", "tcp://[::1]:29500" or "unix:/run/job.sock". A
/// Unix path that begins with @ is a name in Linux's abstract space, which leaves no
/// file.
///
///     Address address = Address::parse("tcp://node7:29500");
///     Address here = Address::tcp("127.0.0.1", 0);  // port 0: any that is free
struct Address {
  enum class Kind { Tcp, Unix };
  Kind kind = Kind::Tcp;
  /// A name or number of a host; for Unix sockets the path.
  std::string host;
  int port = 0;

  /// An IPv6 number may come in brackets, as in a URL; here it has none.
  static Address tcp(std::string_view host, int port);
  // Not plainly "unix": with GNU extensions that is a macro.
  static Address unix_at(std::string path) { return {Kind::Unix, std::move(path), 0}; }
  /// InvalidArgument for anything that is none of the forms above.
  static Address parse(std::string_view text);

  std::string text() const;
  bool operator==(const Address&) const = default;
};

/// One way to reach an address: what bind() and connect() take.
struct Endpoint {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  /// Whether bytes sent there stay on this machine: a loopback address or a Unix
  /// socket.
  bool stays_here() const;
  /// The address back as text, for messages.
  Address address() const;
};

/// Whether a host's name or number means the machine itself everywhere.
bool is_loopback_name(std::string_view host);

/// For what getaddrinfo() says of a host: InvalidArgument for a name that nobody knows,
/// TimeoutError where nobody could be asked, which may pass.
[[noreturn]] void throw_unknown_host(const std::string& host, int code);

/// All end points of an address, best first. Looks names up, which may block for as
/// long as the system's resolver does: not on an I/O thread. Throws as
/// throw_unknown_host() does.
std::vector<Endpoint> resolve(const Address& address);

/// A socket that listens there, non-blocking. A Unix path that a dead listener left
/// behind is replaced; one that is in use is refused.
FileDescriptor listen_at(const Endpoint& endpoint, int backlog);

/// The end points of a connected or listening socket.
Endpoint local_endpoint(int fd);
Endpoint peer_endpoint(int fd);

}  // namespace trireme::net
