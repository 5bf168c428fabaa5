#include "trireme/net/address.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"

namespace trireme::net {
namespace {

[[noreturn]] void refuse_address(std::string_view text_of_it) {
  throw InvalidArgument(text(
      "[net] expected an address as tcp://host:port or unix:/path, got ",
      in_quotes(text_of_it),
      "; write a port from 0 to 65535, and [ ] around an IPv6 number"));
}

Endpoint unix_endpoint(const std::string& path) {
  Endpoint endpoint;
  auto& name = reinterpret_cast<sockaddr_un&>(endpoint.storage);
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(name.sun_path))
    throw InvalidArgument(text(
        "[net] expected a Unix socket's path of 1 to ",
        sizeof(name.sun_path) - 1,
        " bytes, got ",
        path.size(),
        "; choose a shorter folder"));
  std::memcpy(name.sun_path, path.data(), path.size());
  endpoint.length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  if (path[0] == '@')
    name.sun_path[0] = '\0';
  else
    ++endpoint.length;  // with the zero at its end
  return endpoint;
}

// Whether a file is a socket that nobody listens on any more.
bool is_dead_socket(const Endpoint& endpoint, const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode))
    return false;
  const FileDescriptor probe(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(
             probe.get(),
             reinterpret_cast<const sockaddr*>(&endpoint.storage),
             endpoint.length) != 0 &&
         errno == ECONNREFUSED;
}

[[noreturn]] void refuse_listen(const Endpoint& endpoint, int code) {
  throw InvalidArgument(text(
      "[net] expected to listen at ",
      endpoint.address().text(),
      ", got ",
      errno_text(code),
      "; choose another address, or port 0 for any that is free"));
}

}  // namespace

Address Address::tcp(std::string_view host, int port) {
  if (host.size() > 2 && host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  return {Kind::Tcp, std::string(host), port};
}

Address Address::parse(std::string_view given) {
  constexpr std::string_view kTcp = "tcp://", kUnix = "unix:";
  if (given.starts_with(kUnix) && given.size() > kUnix.size())
    return unix_at(std::string(given.substr(kUnix.size())));
  if (!given.starts_with(kTcp))
    refuse_address(given);
  const std::string_view rest = given.substr(kTcp.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos)
    refuse_address(given);
  const std::string_view host = rest.substr(0, colon);
  const bool bracketed =
      host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (!bracketed && host.find_first_of(":[]") != std::string_view::npos)
    refuse_address(given);
  const auto port = parse_number<int>(rest.substr(colon + 1));
  if (host.empty() || !port || *port < 0 || *port > 65535)
    refuse_address(given);
  return tcp(host, *port);
}

std::string Address::text() const {
  if (kind == Kind::Unix)
    return "unix:" + host;
  const bool number6 = host.find(':') != std::string::npos;
  return trireme::text(
      "tcp://", number6 ? "[" : "", host, number6 ? "]" : "", ":", port);
}

bool Endpoint::stays_here() const {
  if (family() == AF_UNIX)
    return true;
  if (family() == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >>
            24) == 127;
  const auto& six = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) ||
         (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

Address Endpoint::address() const {
  if (family() == AF_UNIX) {
    const auto& name = reinterpret_cast<const sockaddr_un&>(storage);
    const std::size_t most =
        length - std::min<std::size_t>(length, offsetof(sockaddr_un, sun_path));
    std::string path(name.sun_path, most);
    if (!path.empty() && path[0] == '\0')
      path[0] = '@';
    else
      path.resize(std::strlen(path.c_str()));
    return Address::unix_at(path.empty() ? "(no name)" : path);
  }
  char host[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &four.sin_addr, host, sizeof(host));
    return Address::tcp(host, ntohs(four.sin_port));
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
  ::inet_ntop(AF_INET6, &six.sin6_addr, host, sizeof(host));
  return Address::tcp(host, ntohs(six.sin6_port));
}

bool is_loopback_name(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void throw_unknown_host(const std::string& host, int code) {
  if (code == EAI_AGAIN)
    throw TimeoutError(text(
        "[net] expected to look up the host ",
        in_quotes(host),
        ", got no answer (",
        ::gai_strerror(code),
        "); see that this machine reaches its name server"));
  throw InvalidArgument(text(
      "[net] expected a host's name or number, got ",
      in_quotes(host),
      " (",
      ::gai_strerror(code),
      "); see that this machine can look the name up"));
}

std::vector<Endpoint> resolve(const Address& address) {
  if (address.kind == Address::Kind::Unix)
    return {unix_endpoint(address.host)};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(
      address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (code != 0)
    throw_unknown_host(address.host, code);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    Endpoint endpoint;
    std::memcpy(&endpoint.storage, one->ai_addr, one->ai_addrlen);
    endpoint.length = one->ai_addrlen;
    endpoints.push_back(endpoint);
  }
  ::freeaddrinfo(list);
  return endpoints;
}

FileDescriptor listen_at(const Endpoint& endpoint, int backlog) {
  FileDescriptor socket(
      ::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0)
    refuse_listen(endpoint, errno);
  const int one = 1;
  if (endpoint.family() == AF_UNIX) {
    const std::string path = endpoint.address().host;
    if (path[0] != '@' && is_dead_socket(endpoint, path))
      ::unlink(path.c_str());
  } else {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  }
  if (::bind(
          socket.get(),
          reinterpret_cast<const sockaddr*>(&endpoint.storage),
          endpoint.length) != 0 ||
      ::listen(socket.get(), backlog) != 0)
    refuse_listen(endpoint, errno);
  return socket;
}

Endpoint local_endpoint(int fd) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.storage);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.length);
  return endpoint;
}

Endpoint peer_endpoint(int fd) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.storage);
  if (::getpeername(
          fd, reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.length) != 0)
    endpoint.length = 0;
  return endpoint;
}

}  // namespace trireme::net
