// Somebody between two streams, who sees all bytes and may change them.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "stream_pair.h"

namespace trireme::net {

/// Carries bytes between two sockets that are not connected with one another.
class Wire {
 public:
  /// What becomes of the bytes of one way. `from` counts those that came before.
  using Change = std::function<void(std::string& bytes, std::size_t from)>;

  Wire() : dialer_(unix_sockets()), acceptor_(unix_sockets()) {}

  /// The ends that the streams get.
  SocketPair ends() {
    return {
        FileDescriptor(dialer_.first.release()),
        FileDescriptor(acceptor_.first.release())};
  }

  void change_to_acceptor(Change change) { to_acceptor_.change = std::move(change); }
  void change_to_dialer(Change change) { to_dialer_.change = std::move(change); }

  /// Moves what is there; true if there was any.
  bool carry() {
    const bool there = move(dialer_.second.get(), acceptor_.second.get(), to_acceptor_);
    return move(acceptor_.second.get(), dialer_.second.get(), to_dialer_) || there;
  }

  /// Cuts both ways, as if the cable was pulled.
  void cut() {
    ::shutdown(dialer_.second.get(), SHUT_RDWR);
    ::shutdown(acceptor_.second.get(), SHUT_RDWR);
  }

  /// All that was sent so far, before any change.
  const std::string& sent_to_acceptor() const { return to_acceptor_.seen; }
  const std::string& sent_to_dialer() const { return to_dialer_.seen; }

 private:
  struct Way {
    Change change;
    std::string seen;
    bool ended = false;
  };

  static bool move(int from, int to, Way& way) {
    char bytes[70'000];
    const ssize_t got = ::recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0 && !way.ended) {
      way.ended = true;
      ::shutdown(to, SHUT_WR);
      return true;
    }
    if (got <= 0)
      return false;
    std::string some(bytes, static_cast<std::size_t>(got));
    const std::size_t before = way.seen.size();
    way.seen += some;
    if (way.change)
      way.change(some, before);
    // The end may have gone already.
    if (!some.empty())
      (void)::send(to, some.data(), some.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return true;
  }

  SocketPair dialer_;
  SocketPair acceptor_;
  Way to_acceptor_;
  Way to_dialer_;
};

/// Flips all bits of one byte of a way, counted from its beginning.
inline Wire::Change flip_byte(std::size_t at) {
  return [at](std::string& bytes, std::size_t from) {
    if (at >= from && at < from + bytes.size())
      bytes[at - from] = static_cast<char>(~bytes[at - from]);
  };
}

/// Lets only so many bytes of a way through.
inline Wire::Change cut_after(std::size_t length) {
  return [length](std::string& bytes, std::size_t from) {
    bytes.resize(from >= length ? 0 : std::min(bytes.size(), length - from));
  };
}

}  // namespace trireme::net
