#include "trireme/net/line.h"

#include <cerrno>
#include <sys/socket.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/net/checksum.h"
#include "trireme/net/node_core.h"

namespace trireme::net {
namespace {

constexpr std::size_t kHandshakeBytes = std::size_t{64} << 10;

}  // namespace

Line::Line(
    NodeCore& core,
    std::unique_ptr<Stream> stream,
    Side side,
    std::shared_ptr<Session> session)
    : core_(core),
      side_(side),
      session_(std::move(session)),
      connection_(
          std::move(stream),
          core.options().limits,
          !core.options().security.encrypted()),
      phase_(side == Side::Dialer ? Phase::Connecting : Phase::Securing) {
  if (side == Side::Acceptor)
    remote_ = peer_endpoint(connection_.stream().fd()).address().text();
}

void Line::ready() {
  if (phase_ == Phase::Closed)
    return;
  const auto self = shared_from_this();  // a turn may end in its own removal
  try {
    turn();
  } catch (const ReceiverFailed& error) {
    core_.receiver_failed(*this, error.what());
  } catch (const std::exception& error) {
    fail(error.what(), true);
  }
}

void Line::turn() {
  // Its session may have ended while it was shaking hands.
  if (phase_ != Phase::Open && session_ && session_->ended())
    return shut();
  if (phase_ == Phase::Connecting && !connected())
    return;
  if (phase_ == Phase::Securing) {
    const Io io = connection_.stream().handshake();  // throws if one side refuses
    if (io.state == Io::State::Closed)
      return fail(trouble(), false);
    if (io.state == Io::State::Blocked)
      return;
    phase_ = Phase::Greeting;
    if (side_ == Side::Dialer) {
      connection_.stream().check_name(session_->name());
      say(FrameKind::Hello, encode(session_->greeting()));
    }
  }
  if (phase_ == Phase::Greeting)
    greet();
  // The greeting may have brought the first frames along.
  if (phase_ == Phase::Open)
    run_session();
}

// A socket that is not connected yet has no peer, and perhaps an error.
bool Line::connected() {
  int code = 0;
  socklen_t size = sizeof(code);
  const int fd = connection_.stream().fd();
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) {
    fail(errno_text(code), false);
    return false;
  }
  const Endpoint peer = peer_endpoint(fd);
  if (peer.length == 0)
    return false;
  remote_ = peer.address().text();
  // A port from the range of those that the system gives to dialers, this one included.
  if (peer.family() != AF_UNIX && peer.address() == local_endpoint(fd).address()) {
    fail("only this socket itself, and nobody who listens", false);
    return false;
  }
  phase_ = Phase::Securing;
  return true;
}

void Line::say(FrameKind kind, std::string header) {
  word_ = {};
  word_.frame = {
      .kind = kind,
      .checked = true,
      .header_bytes = static_cast<std::uint32_t>(header.size()),
      .header_check = crc32c(header)};
  word_.header = std::move(header);
  word_.head = encode(word_.frame);
  has_word_ = true;
}

bool Line::next(OutFrame& out) {
  if (!std::exchange(has_word_, false))
    return false;
  out = std::move(word_);
  return true;
}

void Line::greet() {
  if (connection_.write(*this, kHandshakeBytes) == Connection::Turn::Closed)
    return fail(trouble(), false);
  const auto turn =
      connection_.read(*this, core_.reactor().scratch(), kHandshakeBytes, alone_);
  if (phase_ != Phase::Greeting)
    return;
  if (turn == Connection::Turn::Closed)
    return fail(trouble(), false);
  if (turn == Connection::Turn::More)
    core_.reactor().again(connection_.stream().fd());
}

// Frames behind the greeting, in the same read, are the session's.
std::span<std::byte> Line::begin(const Frame& frame, std::string header) {
  if (phase_ == Phase::Open)
    return session_->begin(frame, std::move(header));
  const FrameKind expected =
      side_ == Side::Dialer ? FrameKind::Welcome : FrameKind::Hello;
  const bool refused = side_ == Side::Dialer && frame.kind == FrameKind::Refuse;
  if (frame.kind != expected && !refused)
    throw InvalidArgument(text(
        "[net] expected a greeting first, got a frame of kind ",
        static_cast<int>(frame.kind),
        "; the peer does not keep to the protocol"));
  header_ = std::move(header);
  return {};
}

void Line::end(const Frame& frame) {
  if (phase_ == Phase::Closed)
    return;
  if (phase_ == Phase::Open)
    return session_->end(frame);
  if (frame.kind == FrameKind::Refuse)
    return core_.refused(*this, escaped(header_));
  const Hello theirs = decode_hello(header_);
  side_ == Side::Dialer ? core_.welcomed(*this, theirs) : core_.greeted(*this, theirs);
}

void Line::carry(std::shared_ptr<Session> session, const Hello& theirs) {
  if (side_ == Side::Acceptor) {
    say(FrameKind::Welcome, encode(session->greeting()));
    connection_.write(*this, kHandshakeBytes);
  }
  session_ = std::move(session);
  phase_ = Phase::Open;
  try {
    session_->attach(shared_from_this(), theirs);
  } catch (...) {
    phase_ = Phase::Greeting;  // what the greeting says cannot be
    throw;
  }
}

void Line::run_session() {
  const auto session = session_;
  const bool gone = session->flush();
  const bool closed = session->read();
  if (phase_ != Phase::Open)
    return;
  if (session->peer_left())
    return core_.peer_left(*this);
  if (gone || closed)
    return fail(trouble(), false);
  // Its own last word is on its way: the other side closes when it has read it.
  if (!session->left())
    return;
  const std::lock_guard lock(guard());
  if (connection_.written())
    connection_.stream().shut_down();
}

void Line::refuse(const std::string& why) {
  // Only who has come through the handshake is told; others get nothing to learn from.
  if (phase_ == Phase::Greeting) {
    say(FrameKind::Refuse, why.substr(0, 2048));
    connection_.write(*this, kHandshakeBytes);
  }
  shut();
}

void Line::shut() {
  if (std::exchange(phase_, Phase::Closed) == Phase::Closed)
    return;
  {
    const std::lock_guard lock(guard());
    connection_.stream().shut_down();
  }
  core_.reactor().forget(connection_.stream().fd());
}

void Line::fail(const std::string& why, bool damaged) {
  if (phase_ == Phase::Closed)
    return;
  core_.failed(*this, why, damaged);
}

std::string Line::trouble() {
  const std::lock_guard lock(guard());
  const std::string why = connection_.stream().trouble();
  if (!why.empty())
    return why;
  return connection_.between_frames()
             ? "the other side closed the connection"
             : "the connection was closed in the middle of a frame";
}

}  // namespace trireme::net
