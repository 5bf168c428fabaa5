#include "trireme/bench/net_end.h"

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

[[noreturn]] void socket_failed(const char* wanted) {
  throw Error(text(
      "[bench] expected to ",
      wanted,
      ", got ",
      errno_text(errno),
      "; look at the other worker"));
}

class RawEnd : public ByteEnd {
 public:
  explicit RawEnd(FileDescriptor socket) : socket_(std::move(socket)) {}

 private:
  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t put =
          ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put < 0)
        socket_failed("send to the other worker");
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
  }

  void read(std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0)
        socket_failed("hear from the other worker");
      bytes = bytes.subspan(static_cast<size_t>(got));
    }
  }

  FileDescriptor socket_;
};

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int wait_for_dialer(int listener, const Deadline& deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
  pollfd ready{.fd = listener, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, static_cast<int>(left)) <= 0)
    socket_failed("be dialled in time");
  return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
}

}  // namespace

void ByteEnd::ask(std::span<const std::byte> message, std::span<std::byte> reply) {
  write(message);
  read(reply);
}

void ByteEnd::serve(
    int count, std::span<std::byte> message, std::span<const std::byte> reply) {
  for (int i = 0; i < count; ++i) {
    read(message);
    write(reply);
  }
}

FileDescriptor meet_at(int port, net::Side side, const Deadline& deadline) {
  const sockaddr_in there = loopback(port);
  const auto* address = reinterpret_cast<const sockaddr*>(&there);
  const auto open = [] {
    return FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  };
  int fd = -1;
  if (side == net::Side::Acceptor) {
    const FileDescriptor listener = open();
    const int one = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (::bind(listener.get(), address, sizeof there) != 0 ||
        ::listen(listener.get(), 1) != 0)
      socket_failed("listen on loopback");
    fd = wait_for_dialer(listener.get(), deadline);
  }
  while (fd < 0 && side == net::Side::Dialer) {
    FileDescriptor socket = open();
    if (::connect(socket.get(), address, sizeof there) == 0)
      fd = socket.release();
    else if (deadline.expired())
      socket_failed("find the other worker in time");
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return FileDescriptor(fd);
}

std::unique_ptr<NetEnd> raw_end(FileDescriptor socket) {
  return std::make_unique<RawEnd>(std::move(socket));
}

}  // namespace trireme::bench
