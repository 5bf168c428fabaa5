// The part of NodeCore that deals with those who have connected and not yet said who
// they are: how many there may be, for how long, and what the log says of them.
#include <algorithm>
#include <iterator>
#include <utility>

#include "trireme/net/node_core.h"

namespace trireme::net {
namespace {
constexpr int kBacklog = 1024;
}  // namespace

void NodeCore::listen() {
  std::vector<std::shared_ptr<Listener>> listeners;
  for (const Address& address : options_.listen) {
    const Endpoint endpoint = resolve(address).front();
    options_.security.check_allowed(endpoint);
    listeners.push_back(std::make_shared<Listener>(
        reactor_, listen_at(endpoint, kBacklog), [this](FileDescriptor socket) {
          take_stranger(std::move(socket));
        }));
    addresses_.push_back(listeners.back()->address());
  }
  reactor_.post([self = shared_from_this(), listeners] {
    self->listeners_ = listeners;
    for (const auto& listener : listeners)
      self->reactor_.watch(listener->fd(), listener);
    self->tick();
  });
}

// -- the I/O thread

void NodeCore::take_stranger(FileDescriptor socket) {
  const int fd = socket.get();
  const Endpoint peer = peer_endpoint(fd);
  tune(fd, peer);
  const std::string remote = peer.address().text();
  std::shared_ptr<Line> line;
  try {
    options_.security.check_allowed(peer);
    line = std::make_shared<Line>(
        *this,
        options_.security.protect(std::move(socket), Side::Acceptor),
        Side::Acceptor,
        nullptr);
  } catch (const Error& error) {
    return note_turned_away(remote, error.what());
  }
  reactor_.watch(fd, line);
  strangers_.push_back({line, Reactor::Clock::now() + options_.handshake});
  limit_strangers();
  // What it has said already must count before anybody has to go.
  line->ready();
  if (strangers_.size() > static_cast<std::size_t>(options_.strangers)) {
    const auto one = least_promising();
    turn_away(*one, "too many handshakes were under way at once");
    one->shut();
  }
}

// Those of the job speak at once, so who has said nothing goes first. Among the others
// chance decides: if it were the oldest, a fast flood would drive out every one of the
// job before its handshake is through.
std::shared_ptr<Line> NodeCore::least_promising() {
  const auto silent =
      std::find_if(strangers_.begin(), strangers_.end(), [](const Stranger& one) {
        return !one.line->heard();
      });
  if (silent != strangers_.end())
    return silent->line;
  return std::next(
             strangers_.begin(),
             static_cast<std::ptrdiff_t>(chance_() % strangers_.size()))
      ->line;
}

// One timer for all, by the first who has to go: in a flood there would be hundreds of
// thousands, and each would keep the memory of somebody who has gone long since.
void NodeCore::limit_strangers() {
  if (strangers_.empty() || std::exchange(strangers_timed_, true))
    return;
  reactor_.at(strangers_.front().until, [this] {
    strangers_timed_ = false;
    const auto now = Reactor::Clock::now();
    while (!strangers_.empty() && strangers_.front().until <= now) {
      const auto late = strangers_.front().line;
      failed(*late, no_greeting(), false);
      forget_stranger(*late);
    }
    limit_strangers();
  });
}

std::string NodeCore::no_greeting() const {
  return text("no greeting came within ", options_.handshake.count(), " ms");
}

void NodeCore::forget_stranger(const Line& line) {
  std::erase_if(
      strangers_, [&](const Stranger& one) { return one.line.get() == &line; });
}

void NodeCore::turn_away(const Line& line, const std::string& why) {
  forget_stranger(line);
  note_turned_away(line.remote(), why);
}

void NodeCore::note_turned_away(const std::string& remote, const std::string& why) {
  ++turned_away_;
  warn(text("turned away a connection from ", remote, ": ", why));
}

}  // namespace trireme::net
