// Two ends of one connection in one process, and their handshake.
#pragma once
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/net/security.h"
#include "trireme/net/stream.h"

namespace trireme::net {

/// Two connected sockets that never block.
using SocketPair = std::pair<FileDescriptor, FileDescriptor>;

inline SocketPair unix_sockets() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
    throw std::runtime_error("socketpair: " + errno_text(errno));
  return {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

/// The same over TCP on this machine.
inline SocketPair tcp_sockets() {
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  FileDescriptor dialer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), plain, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), plain, &length) != 0 ||
      ::connect(dialer.get(), plain, length) != 0)
    throw std::runtime_error("tcp pair: " + errno_text(errno));
  FileDescriptor acceptor(
      ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  ::fcntl(dialer.get(), F_SETFL, O_NONBLOCK);
  return {std::move(dialer), std::move(acceptor)};
}

struct StreamPair {
  std::unique_ptr<Stream> dialer;
  std::unique_ptr<Stream> acceptor;
};

/// Both ends of a connection, before their handshake.
inline StreamPair make_streams(
    const Security& dialer,
    const Security& acceptor,
    SocketPair sockets = unix_sockets()) {
  return {
      dialer.protect(std::move(sockets.first), Side::Dialer),
      acceptor.protect(std::move(sockets.second), Side::Acceptor)};
}

/// How a handshake went on one side, and why if not well.
struct HandshakeEnd {
  enum class How { Waiting, Through, Refused, Closed };
  How how = How::Waiting;
  std::string why;

  bool through() const { return how == How::Through; }
  bool refused() const { return how == How::Refused; }
};

/// Goes on with one side's handshake. A stream that is refused or closed is destroyed,
/// as its owner would.
inline bool go_on(std::unique_ptr<Stream>& stream, HandshakeEnd& end) {
  if (end.how != HandshakeEnd::How::Waiting)
    return false;
  try {
    const Io io = stream->handshake();
    if (io.state == Io::State::Blocked)
      return false;
    end.how = io.state == Io::State::Done ? HandshakeEnd::How::Through
                                          : HandshakeEnd::How::Closed;
    end.why = stream->trouble();
  } catch (const Error& error) {
    end = {HandshakeEnd::How::Refused, error.what()};
  }
  if (!end.through())
    stream.reset();
  return true;
}

struct HandshakeEnds {
  HandshakeEnd dialer;
  HandshakeEnd acceptor;
  bool through() const { return dialer.through() && acceptor.through(); }
};

/// Both handshakes in turns, in one thread, as far as they go. `carry` moves bytes
/// between them where they are not connected directly, and says whether there were any.
inline HandshakeEnds shake_hands(
    StreamPair& pair, const std::function<bool()>& carry = [] { return false; }) {
  HandshakeEnds ends;
  for (int idle = 0; idle < 3; ++idle) {
    const bool dialer = go_on(pair.dialer, ends.dialer);
    bool moved = carry();
    const bool acceptor = go_on(pair.acceptor, ends.acceptor);
    moved = carry() || moved;
    if (dialer || acceptor || moved)
      idle = 0;
  }
  return ends;
}

/// Both ends of a connection, ready for use.
inline StreamPair connected_streams(
    const Security& security, SocketPair sockets = unix_sockets()) {
  StreamPair pair = make_streams(security, security, std::move(sockets));
  const HandshakeEnds ends = shake_hands(pair);
  if (!ends.through())
    throw std::runtime_error(ends.dialer.why + " / " + ends.acceptor.why);
  return pair;
}

inline iovec part_of(const std::string& bytes) {
  return {const_cast<char*>(bytes.data()), bytes.size()};
}

/// Writes a text, which must fit.
inline void put(Stream& stream, const std::string& bytes) {
  const iovec part = part_of(bytes);
  const Io io = stream.write({&part, 1});
  EXPECT_EQ(io.state, Io::State::Done) << stream.trouble();
  EXPECT_EQ(io.bytes, bytes.size());
}

/// What is there to read now.
inline std::string take(Stream& stream, std::size_t most = std::size_t{1} << 20) {
  std::string all(most, '\0');
  std::size_t filled = 0;
  while (filled < most) {
    const iovec part{all.data() + filled, most - filled};
    const Io io = stream.read({&part, 1});
    if (io.state != Io::State::Done)
      break;
    filled += io.bytes;
  }
  all.resize(filled);
  return all;
}

/// Whether two streams carry bytes both ways.
inline bool they_talk(StreamPair& pair) {
  put(*pair.dialer, "ping");
  const bool there = take(*pair.acceptor) == "ping";
  put(*pair.acceptor, "pong");
  return there && take(*pair.dialer) == "pong";
}

/// Waits for a socket as an event loop does; false after 10 seconds.
inline bool wait_for(int fd, short events) {
  pollfd one{fd, events, 0};
  return ::poll(&one, 1, 10'000) == 1;
}

}  // namespace trireme::net
