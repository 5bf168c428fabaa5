#include "trireme/net/node_core.h"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "trireme/core/escape.h"
#include "trireme/core/log.h"

namespace trireme::net {
namespace {

using Clock = Reactor::Clock;
using std::chrono::milliseconds;

constexpr int kMostDamages = 8;
// Greetings are short: where they pass and nothing else does, connecting again is in
// vain.
constexpr int kMostSilences = 3;
constexpr int kBacklog = 1024;

std::string start_text(const std::string& job, std::uint64_t incarnation) {
  return text("job ", in_quotes(job), ", start ", incarnation);
}

}  // namespace

/// A socket that listens.
class NodeCore::Listener : public Reactor::Handler {
 public:
  Listener(NodeCore& core, FileDescriptor socket)
      : core_(core),
        socket_(std::move(socket)),
        address_(local_endpoint(fd()).address()) {}
  ~Listener() override {
    // A file for its name is ours to remove.
    if (address_.kind == Address::Kind::Unix && address_.host[0] == '/')
      ::unlink(address_.host.c_str());
  }
  int fd() const { return socket_.get(); }
  const Address& address() const { return address_; }
  void ready() override { core_.accept(*this); }

 private:
  NodeCore& core_;
  FileDescriptor socket_;
  Address address_;
};

NodeCore::NodeCore(NodeOptions options, Receiver& receiver)
    : options_(std::move(options)), receiver_(receiver) {}

// -- any thread

void NodeCore::listen() {
  std::vector<std::shared_ptr<Listener>> listeners;
  for (const Address& address : options_.listen) {
    const Endpoint endpoint = resolve(address).front();
    options_.security.check_allowed(endpoint);
    listeners.push_back(
        std::make_shared<Listener>(*this, listen_at(endpoint, kBacklog)));
    addresses_.push_back(listeners.back()->address());
  }
  reactor_.post([self = shared_from_this(), listeners] {
    self->listeners_ = listeners;
    for (const auto& listener : listeners)
      self->reactor_.watch(listener->fd(), listener);
    self->tick();
  });
}

Peer NodeCore::connect(
    const std::string& name,
    const Address& address,
    Deadline deadline,
    const std::function<void()>& check) {
  if (reactor_.in_thread())
    throw InvalidArgument(
        "[net] expected connect() on a thread of the program's own, got the I/O "
        "thread; "
        "do not call it from a Receiver");
  const auto session =
      std::make_shared<Session>(shared_from_this(), name, random_session_id());
  session->endpoints = resolve(address);
  for (const Endpoint& endpoint : session->endpoints)
    options_.security.check_allowed(endpoint);
  session->patience = Clock::now() + deadline.remaining();
  auto connected = session->connected.get_future();
  reactor_.post([self = shared_from_this(), session] { self->start_dial(session); });
  await_dial(session, connected, deadline, check);
  try {
    connected.get();
  } catch (const TimeoutError&) {
    throw TimeoutError(text(
        "[net] expected a node called ",
        in_quotes(name),
        " at ",
        address.text(),
        " within ",
        deadline.allowed().count(),
        " ms, got ",
        session->last_trouble.empty() ? "no answer" : session->last_trouble,
        "; see that it runs and can be reached, or allow more time"));
  }
  return Peer(session);
}

// The I/O thread keeps the deadline; the rest is for a thread that has no time.
void NodeCore::await_dial(
    const SessionPtr& session,
    std::future<void>& connected,
    Deadline deadline,
    const std::function<void()>& check) {
  constexpr auto kSlack = std::chrono::seconds(5);
  constexpr auto kCheck = milliseconds(100);
  const auto end = Clock::now() + deadline.remaining() + kSlack;
  while (connected.wait_for(kCheck) != std::future_status::ready) {
    if (Clock::now() >= end)
      throw TimeoutError(text(
          "[net] expected the I/O thread to give up on ",
          in_quotes(session->name()),
          " in time, got no answer; see whether a Receiver blocks"));
    try {
      if (check)
        check();
    } catch (...) {
      reactor_.post([self = shared_from_this(), session] {
        self->refuse_dial(session, "nobody waits for it any more");
      });
      throw;
    }
  }
}

void NodeCore::close() {
  if (reactor_.in_thread())
    throw InvalidArgument(
        "[net] expected close() on a thread of the program's own, got the I/O thread; "
        "do "
        "not call it from a Receiver");
  reactor_.post([this] { close_all(); });
  std::unique_lock lock(mutex_);
  emptied_.wait_for(
      lock, options_.linger + std::chrono::seconds(1), [this] { return empty_; });
  lock.unlock();
  reactor_.stop();
  // What is left after all is told here: the I/O thread is gone.
  while (!sessions_.empty())
    lose(sessions_.begin()->second, Ending::Closed, "the node was closed");
}

// -- the I/O thread: strangers

void NodeCore::accept(Listener& listener) {
  // Enough for one turn; a flood must not keep sessions waiting.
  for (int i = 0; i < 64; ++i) {
    FileDescriptor socket(
        ::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() >= 0) {
      take_stranger(std::move(socket));
      continue;
    }
    const int code = errno;
    if (code == EAGAIN || code == EWOULDBLOCK)
      return;
    if (code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM) {
      // No event would tell when there is room again.
      reactor_.at(Clock::now() + milliseconds(100), [this, fd = listener.fd()] {
        reactor_.again(fd);
      });
      return;
    }
  }
  reactor_.again(listener.fd());
}

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
  strangers_.push_back(line);
  limit_handshake(line);
  if (strangers_.size() > static_cast<std::size_t>(options_.strangers)) {
    const auto oldest = strangers_.front();
    turn_away(*oldest, "too many handshakes were under way at once");
    oldest->shut();
  }
}

void NodeCore::limit_handshake(const std::shared_ptr<Line>& line) {
  reactor_.at(Clock::now() + options_.handshake, [this, weak = std::weak_ptr(line)] {
    if (const auto late = weak.lock(); late && !late->open() && !late->closed())
      failed(
          *late,
          text("no greeting came within ", options_.handshake.count(), " ms"),
          false);
  });
}

// The kernel asks again after 1, 2 and 4 s: a network that comes back would have to
// wait for it.
void NodeCore::limit_connecting(const std::shared_ptr<Line>& line) {
  const auto limit =
      std::clamp(options_.heartbeat / 16, milliseconds(250), milliseconds(1000));
  reactor_.at(Clock::now() + limit, [this, weak = std::weak_ptr(line)] {
    if (const auto late = weak.lock(); late && late->connecting())
      failed(*late, "the other side did not answer", false);
  });
}

void NodeCore::forget_stranger(const Line& line) {
  std::erase_if(strangers_, [&](const auto& other) { return other.get() == &line; });
}

void NodeCore::turn_away(const Line& line, const std::string& why) {
  forget_stranger(line);
  note_turned_away(line.remote(), why);
}

// One line a second is enough to see it, and a flood cannot fill the disk.
void NodeCore::note_turned_away(const std::string& remote, const std::string& why) {
  ++turned_away_;
  const auto now = Clock::now();
  if (now - logged_ < std::chrono::seconds(1)) {
    ++unlogged_;
    return;
  }
  logged_ = now;
  const std::uint64_t others = std::exchange(unlogged_, 0);
  TRIREME_LOG(warn, "net") << "turned away a connection from " << remote << ": " << why
                           << (others > 0 ? text(" (and ", others, " others before)")
                                          : "");
}

// -- the I/O thread: greetings

void NodeCore::check_greeting(const Line& line, const Hello& theirs) const {
  if (theirs.job != options_.job || theirs.incarnation != options_.incarnation)
    throw InvalidArgument(text(
        "[net] expected a peer of ",
        start_text(options_.job, options_.incarnation),
        ", got ",
        in_quotes(theirs.from),
        " of ",
        start_text(theirs.job, theirs.incarnation),
        "; it belongs to another job, or to a start that is over"));
  if (theirs.to != options_.name)
    throw InvalidArgument(text(
        "[net] expected a peer that looks for ",
        in_quotes(options_.name),
        ", got one that "
        "looks for ",
        in_quotes(theirs.to),
        "; two nodes may have been given each other's address"));
  const_cast<Line&>(line).connection().stream().check_name(theirs.from);
  const auto& roster = options_.roster;
  if (!roster.empty() &&
      std::find(roster.begin(), roster.end(), theirs.from) == roster.end())
    throw InvalidArgument(text(
        "[net] expected a peer whose name is on the roster, got ",
        in_quotes(theirs.from),
        "; add it to NodeOptions::roster"));
}

void NodeCore::greeted(Line& line, const Hello& theirs) {
  const auto self = line.shared_from_this();
  SessionPtr session;
  const auto found = sessions_.find(theirs.session);
  try {
    check_greeting(line, theirs);
    if (found != sessions_.end())
      session = found->second;
    if (closing_)
      throw InvalidArgument(
          "[net] expected a node that goes on, got one that is leaving; it is over");
    if (session && !session->endpoints.empty())
      throw InvalidArgument(text(
          "[net] expected to hear from another node, got this one's own greeting; ",
          options_.name,
          " must not dial itself"));
    if (session ? session->name() != theirs.from : theirs.resumed)
      throw InvalidArgument(
          "[net] expected a session that is known here, got one that has ended; "
          "connect anew");
    if (session && session->closing())
      throw InvalidArgument(
          "[net] expected a session that goes on, got one that is ending; it is over");
  } catch (const Error& error) {
    turn_away(line, error.what());
    line.refuse(error.what());
    return;
  }
  forget_stranger(line);
  const bool is_new = session == nullptr;
  if (is_new)
    session = sessions_[theirs.session] =
        std::make_shared<Session>(shared_from_this(), theirs.from, theirs.session);
  else if (const auto old = session->line())
    old->shut();  // its end has not been seen here yet
  line.carry(session, theirs);
  if (is_new)
    ask([&](Receiver& receiver) { receiver.joined(Peer(session)); });
}

void NodeCore::welcomed(Line& line, const Hello& theirs) {
  const SessionPtr session = line.session();
  if (theirs.from != session->name() || theirs.session != session->id())
    throw InvalidArgument(text(
        "[net] expected ",
        in_quotes(session->name()),
        " at ",
        line.remote(),
        ", got ",
        in_quotes(theirs.from),
        "; look at the addresses"));
  const bool first = !session->was_connected;
  line.carry(session, theirs);
  if (first)
    session->connected.set_value();
  if (session->closing())
    start_leaving(session);
}

void NodeCore::refused(Line& line, const std::string& why) {
  const SessionPtr session = line.session();
  line.shut();
  refuse_dial(
      session, text(session->name(), " at ", line.remote(), " answered: ", why));
}

// -- the I/O thread: connections that end

void NodeCore::failed(Line& line, const std::string& why, bool damaged) {
  const auto self = line.shared_from_this();
  const SessionPtr session = line.session();
  if (!session) {
    turn_away(line, why);
    line.refuse(why);
    return;
  }
  const bool was_open = line.open();
  line.shut();
  if (session->ended() || (was_open && session->line() != self))
    return;  // another connection carries it, or nobody needs one
  session->last_trouble = why;
  if (!was_open && damaged)
    return refuse_dial(session, why);
  if (was_open) {
    session->detach();
    TRIREME_LOG(info, "net") << "the connection to " << session->name()
                             << " broke: " << why;
    if (session->closing())
      return lose(session, Ending::Closed, why);
    if (damaged && ++session->damages > kMostDamages)
      return lose(session, Ending::Lost, why);
    wait_for_return(session, Clock::now() + options_.reconnect);
  }
  if (!session->endpoints.empty())
    dial_later(session);
}

void NodeCore::receiver_failed(Line& line, const std::string& why) {
  const SessionPtr session = line.session();
  const auto self = line.shared_from_this();
  line.shut();
  TRIREME_LOG(warn, "net") << "closed the session with " << session->name()
                           << ", because its receiver threw: " << why;
  lose(session, Ending::Closed, why);
}

void NodeCore::peer_left(Line& line) {
  const SessionPtr session = line.session();
  const auto self = line.shared_from_this();
  line.shut();
  lose(
      session,
      session->closing() ? Ending::Closed : Ending::Left,
      session->name() + " has left");
}

void NodeCore::fell_silent(const SessionPtr& session, Clock::time_point heard) {
  session->last_trouble = text(
      "nothing was heard of ",
      session->name(),
      " for ",
      std::chrono::duration_cast<milliseconds>(Clock::now() - heard).count(),
      " ms");
  TRIREME_LOG(info, "net") << session->last_trouble;
  if (++session->silences > kMostSilences)
    return lose(
        session,
        Ending::Lost,
        text(
            session->last_trouble,
            ", ",
            session->silences,
            " times in a row, though it could be connected to; see that the network "
            "takes packets of full length (MTU)"));
  if (const auto line = session->line())
    line->shut();
  session->detach();
  wait_for_return(session, heard + options_.heartbeat);
  if (!session->endpoints.empty())
    dial_later(session);
}

void NodeCore::wait_for_return(const SessionPtr& session, Clock::time_point until) {
  session->patience = until;
  reactor_.at(until, [this, weak = std::weak_ptr(session)] {
    const auto late = weak.lock();
    if (late && !late->ended() && !late->line() && Clock::now() >= late->patience)
      give_up(late);
  });
}

// -- the I/O thread: the end of sessions

void NodeCore::lose(const SessionPtr& session, Ending ending, const std::string& why) {
  const SessionPtr kept = session;
  if (const auto line = kept->line())
    line->shut();
  kept->end(ending, why);
  forget_session(*kept);
}

void NodeCore::tell_lost(const Peer& peer, Ending ending, const std::string& why) {
  try {
    receiver_.lost(peer, ending, why);
  } catch (const std::exception& error) {
    TRIREME_LOG(warn, "net") << "a receiver threw when it lost " << peer.name() << ": "
                             << error.what();
  }
}

void NodeCore::forget_session(const Session& session) {
  sessions_.erase(session.id());
  if (!closing_ || !sessions_.empty())
    return;
  const std::lock_guard lock(mutex_);
  empty_ = true;
  emptied_.notify_all();
}

void NodeCore::start_leaving(const SessionPtr& session) {
  if (session->ended())
    return;
  if (!session->line())
    return lose(session, Ending::Closed, "closed while no connection was there");
  reactor_.at(Clock::now() + options_.linger, [this, weak = std::weak_ptr(session)] {
    if (const auto slow = weak.lock(); slow && !slow->ended())
      lose(slow, Ending::Closed, "the other side did not take all in time");
  });
  session->line()->ready();
}

void NodeCore::close_all() {
  closing_ = true;
  for (const auto& listener : listeners_)
    reactor_.forget(listener->fd());
  listeners_.clear();
  while (!strangers_.empty()) {
    const auto line = strangers_.front();
    forget_stranger(*line);
    line->shut();
  }
  std::vector<SessionPtr> all;
  for (const auto& [id, session] : sessions_)
    all.push_back(session);
  for (const SessionPtr& session : all)
    session->was_connected ? session->close()
                           : refuse_dial(session, "this node is closing");
  if (sessions_.empty()) {
    const std::lock_guard lock(mutex_);
    empty_ = true;
    emptied_.notify_all();
  }
}

void NodeCore::tick() {
  const auto now = Clock::now();
  const auto pause = options_.heartbeat / 4;
  // While this process was stopped (Ctrl-Z) it heard nobody, which is not their fault.
  const auto stopped =
      next_tick_ == Clock::time_point() ? Clock::duration(0) : now - next_tick_;
  next_tick_ = now + pause;
  std::vector<SessionPtr> all;  // a session that ends takes itself out of the map
  all.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_)
    all.push_back(session);
  for (const SessionPtr& session : all) {
    if (stopped > pause)
      session->forgive(stopped);
    session->tick();
  }
  reactor_.at(next_tick_, [this] { tick(); });
}

}  // namespace trireme::net
