#include "trireme/net/node_core.h"

#include <algorithm>
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

std::string start_text(const std::string& job, std::uint64_t incarnation) {
  return text("job ", in_quotes(job), ", start ", incarnation);
}

}  // namespace

NodeCore::NodeCore(NodeOptions options, Receiver& receiver)
    : options_(std::move(options)), receiver_(receiver) {}

// -- any thread

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
        "; see that it runs, can be reached, and is protected as this node is, by ",
        options_.security.text(),
        "; or allow more time"));
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
    if (closing_ && !session)
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
    // Nobody writes to it any more. What comes after its goodbye is no news.
    if (session->left() && line.connection().written())
      return lose(session, Ending::Closed, why);
    inform(text("the connection to ", session->name(), " broke: ", why));
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
  warn(text(
      "closed the session with ",
      session->name(),
      ", because its receiver threw: ",
      why));
  lose(session, Ending::Closed, why);
}

void NodeCore::peer_left(Line& line) {
  const SessionPtr session = line.session();
  const auto self = line.shared_from_this();
  line.shut();
  lose(session, Ending::Left, session->name() + " has left");
}

void NodeCore::fell_silent(const SessionPtr& session, Clock::time_point heard) {
  session->last_trouble = text(
      "nothing was heard of ",
      session->name(),
      " for ",
      std::chrono::duration_cast<milliseconds>(Clock::now() - heard).count(),
      " ms");
  inform(session->last_trouble);
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
  // Who closes it has ended it, whatever came in between.
  kept->end(kept->closing() ? Ending::Closed : ending, why);
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
  stop_listening();
  const std::lock_guard lock(mutex_);
  empty_ = true;
  emptied_.notify_all();
}

void NodeCore::start_leaving(const SessionPtr& session) {
  if (session->ended())
    return;
  reactor_.at(Clock::now() + options_.linger, [this, weak = std::weak_ptr(session)] {
    if (const auto slow = weak.lock(); slow && !slow->ended())
      lose(slow, Ending::Closed, "the other side did not take all in time");
  });
  if (const auto line = session->line())
    line->ready();
  else if (closing_ && !must_return(*session))
    lose(session, Ending::Closed, "closed while no connection was there");
  // Else what is left goes over the next one.
}

// While a node closes, a session without a connection is worth waiting for as long as
// something is left to say; a goodbye alone is not.
bool NodeCore::must_return(const Session& session) {
  return !session.line() && session.queued_bytes() > 0;
}

void NodeCore::stop_listening() {
  for (const auto& listener : listeners_)
    reactor_.forget(listener->fd());
  listeners_.clear();
  while (!strangers_.empty()) {
    const auto line = strangers_.front().line;
    forget_stranger(*line);
    line->shut();
  }
}

void NodeCore::close_all() {
  closing_ = true;
  const bool awaited =
      std::any_of(sessions_.begin(), sessions_.end(), [](const auto& one) {
        return one.second->endpoints.empty() && must_return(*one.second);
      });
  if (!awaited)
    stop_listening();
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

// -- the I/O thread: what the log hears of peers, who must not be able to fill it

void NodeCore::warn(std::string line) {
  if (const auto now = warnings_.take(std::move(line), Clock::now()))
    TRIREME_LOG(warn, "net") << *now;
}

void NodeCore::inform(std::string line) {
  if (const auto now = informations_.take(std::move(line), Clock::now()))
    TRIREME_LOG(info, "net") << *now;
}

void NodeCore::tell_rest() {
  if (const auto line = warnings_.take_rest(Clock::now()))
    TRIREME_LOG(warn, "net") << *line;
  if (const auto line = informations_.take_rest(Clock::now()))
    TRIREME_LOG(info, "net") << *line;
}

// -- the I/O thread: the clock

void NodeCore::tick() {
  tell_rest();
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
