// The part of NodeCore that dials.
#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

#include "trireme/net/node_core.h"

namespace trireme::net {
namespace {

using DialClock = Reactor::Clock;

// What the kernel may hold of a connection beside what is on its way: a small message
// behind a large one waits for that much.
constexpr int kUnsentBytes = 256 << 10;
// What may lie unread on this machine, where nothing is gained by more.
constexpr int kUnreadBytes = 1 << 20;

}  // namespace

void NodeCore::tune(int fd, const Endpoint& peer) {
  const int one = 1;
  // Both fail on Unix sockets, which need neither.
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
  // Elsewhere the system finds what the way needs.
  if (peer.stays_here())
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kUnreadBytes, sizeof(kUnreadBytes));
}

void NodeCore::start_dial(const SessionPtr& session) {
  if (closing_)
    return refuse_dial(session, "this node is closing");
  sessions_[session->id()] = session;
  dial(session);
  // A handshake that hangs may take longer than the caller has time.
  reactor_.at(session->patience, [this, weak = std::weak_ptr(session)] {
    if (const auto late = weak.lock(); late && !late->was_connected)
      give_up(late);
  });
}

void NodeCore::dial(const SessionPtr& session) {
  if (session->ended() || session->line())
    return;
  const Endpoint& endpoint =
      session->endpoints[session->attempts++ % session->endpoints.size()];
  FileDescriptor socket(
      ::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = socket.get();
  if (fd < 0 ||
      (::connect(
           fd, reinterpret_cast<const sockaddr*>(&endpoint.storage), endpoint.length) !=
           0 &&
       errno != EINPROGRESS)) {
    session->last_trouble = errno_text(errno);
    return dial_later(session);
  }
  tune(fd, endpoint);
  try {
    const auto line = std::make_shared<Line>(
        *this,
        options_.security.protect(std::move(socket), Side::Dialer),
        Side::Dialer,
        session);
    reactor_.watch(fd, line);
    limit_handshake(line);
    if (session->was_connected)
      limit_connecting(line);
    // A Unix socket is connected already, and no event will say so.
    line->ready();
  } catch (const Error& error) {
    refuse_dial(session, error.what());
  }
}

// The kernel asks again after 1, 2 and 4 s: a network that comes back would have to
// wait for it.
void NodeCore::limit_connecting(const std::shared_ptr<Line>& line) {
  const auto limit = std::clamp<DialClock::duration>(
      options_.heartbeat / 16, std::chrono::milliseconds(250), std::chrono::seconds(1));
  reactor_.at(DialClock::now() + limit, [this, weak = std::weak_ptr(line)] {
    if (const auto late = weak.lock(); late && late->connecting())
      failed(*late, "the other side did not answer", false);
  });
}

void NodeCore::limit_handshake(const std::shared_ptr<Line>& line) {
  reactor_.at(
      DialClock::now() + options_.handshake, [this, weak = std::weak_ptr(line)] {
        if (const auto late = weak.lock(); late && !late->open() && !late->closed())
          failed(*late, no_greeting(), false);
      });
}

void NodeCore::dial_later(const SessionPtr& session) {
  const auto now = DialClock::now();
  if (now >= session->patience)
    return give_up(session);
  const auto doubled =
      std::chrono::milliseconds(5) * (1 << std::min<std::size_t>(session->attempts, 5));
  const auto next = std::min(now + doubled, session->patience);
  reactor_.at(next, [this, weak = std::weak_ptr(session)] {
    if (const auto waiting = weak.lock())
      DialClock::now() >= waiting->patience ? give_up(waiting) : dial(waiting);
  });
}

void NodeCore::give_up(const SessionPtr& session) {
  if (session->ended() || session->line())
    return;
  const std::string why = text(
      "lost ",
      session->name(),
      ": ",
      session->last_trouble.empty() ? "no connection came back"
                                    : session->last_trouble);
  if (!session->was_connected)
    session->connected.set_exception(std::make_exception_ptr(TimeoutError(why)));
  lose(session, Ending::Lost, why);
}

void NodeCore::refuse_dial(const SessionPtr& session, const std::string& why) {
  if (session->ended())
    return;
  if (!session->was_connected)
    session->connected.set_exception(std::make_exception_ptr(Error(why)));
  lose(session, Ending::Refused, why);
}

}  // namespace trireme::net
