// A connected socket as a stream of bytes that never blocks, plain or under TLS.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <sys/uio.h>

#include "trireme/core/file_descriptor.h"

namespace trireme::net {

/// What one call on a stream came to.
struct Io {
  enum class State {
    Done,     ///< `bytes` were moved, at least one; or the handshake is through
    Blocked,  ///< nothing can be done until the socket is ready again
    Closed,   ///< the other side has closed, or the connection broke
  };
  State state = State::Blocked;
  std::size_t bytes = 0;
};

/// One connection. Not for two threads at once, but for what is_two_way() allows: its
/// owner has a lock. A connection that
/// breaks is Closed, and `trouble` says why; only a handshake that is refused throws.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Goes on with the handshake; Done when it is through: then read before you wait,
  /// since bytes may have come along with it. While it is Blocked, it may wait for the
  /// socket to take bytes as well as to bring some. Throws Error with the reason if the
  /// other side is not whom this one may talk to. With certificates the dialer is
  /// through first: whether the other side takes its certificate shows at its first
  /// read.
  virtual Io handshake() = 0;
  /// Fills `parts` in order as far as bytes are there: call again until Blocked, since
  /// a socket may say only once that there are more.
  virtual Io read(std::span<const iovec> parts) = 0;
  /// Writes as much of `parts` as the socket takes. A part of which only the front was
  /// taken must be gone on with before anything else (the last byte of what was taken
  /// may still be counted as not taken, so keep messages longer than one byte).
  virtual Io write(std::span<const iovec> parts) = 0;
  /// Whether anything has come yet.
  virtual bool heard() const = 0;
  /// Whether one thread may read while another writes, without a lock.
  virtual bool is_two_way() const { return false; }
  /// Says goodbye as far as that is possible without waiting.
  virtual void shut_down() = 0;
  /// Throws Error unless the other side has proved that it is `name`. A job key proves
  /// membership of the job alone: then every name is good.
  virtual void check_name(const std::string& name) const = 0;

  /// Why it is Closed, in a few words; empty as long as it is not, and after a plain
  /// goodbye.
  virtual std::string trouble() const = 0;
  virtual int fd() const = 0;
};

/// Which side began.
enum class Side { Dialer, Acceptor };

/// The socket as it is, without any protection. `check`, if there is one, is called
/// with it in handshake(), when it is connected, and throws if it is not wanted.
std::unique_ptr<Stream> plain_stream(
    FileDescriptor socket, std::function<void(int fd)> check = nullptr);

}  // namespace trireme::net
