// A connection in the hands of a node: the handshake, and after it a session's frames.
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "trireme/net/connection.h"
#include "trireme/net/hello.h"
#include "trireme/net/reactor.h"
#include "trireme/net/session.h"

namespace trireme::net {

/// Belongs to the I/O thread, but for its connection's writing half, which its
/// session's lock guards.
class Line : public Reactor::Handler,
             public FrameSource,
             public FrameSink,
             public std::enable_shared_from_this<Line> {
 public:
  /// A dialer knows its session from the start; an acceptor by the greeting.
  Line(
      NodeCore& core,
      std::unique_ptr<Stream> stream,
      Side side,
      std::shared_ptr<Session> session);

  Connection& connection() { return connection_; }
  Side side() const { return side_; }
  const std::shared_ptr<Session>& session() const { return session_; }
  bool connecting() const { return phase_ == Phase::Connecting; }
  bool open() const { return phase_ == Phase::Open; }
  bool closed() const { return phase_ == Phase::Closed; }
  /// Whether the other side has said anything at all.
  bool heard() { return connection_.stream().heard(); }
  /// Where the other side is, for messages.
  const std::string& remote() const { return remote_; }

  void ready() override;
  /// The session that the other side meant: its frames come from now on.
  void carry(std::shared_ptr<Session> session, const Hello& theirs);
  /// Says a last word, and closes.
  void refuse(const std::string& why);
  /// Gives up the socket. The node has been told, or knows.
  void shut();

  bool next(OutFrame& out) override;
  std::span<std::byte> begin(const Frame& frame, std::string header) override;
  void end(const Frame& frame) override;
  /// Once a session is carried, it reads for itself, under its own lock.
  bool wants_more() const override { return phase_ == Phase::Greeting; }

 private:
  enum class Phase { Connecting, Securing, Greeting, Open, Closed };
  bool connected();
  void say(FrameKind kind, std::string header);
  void turn();
  void greet();
  void run_session();
  void fail(const std::string& why, bool damaged);
  std::string trouble();
  /// The lock of the stream: from the first frame of a session on, threads of the
  /// program write to it.
  std::mutex& guard() { return session_ ? session_->stream_lock() : alone_; }

  NodeCore& core_;
  Side side_;
  std::shared_ptr<Session> session_;
  Connection connection_;
  Phase phase_;
  std::string remote_;
  std::mutex alone_;  // stands in for a session's while there is none
  OutFrame word_;     // what the handshake has to say
  bool has_word_ = false;
  std::string header_;  // of the frame that is being read
};

}  // namespace trireme::net
