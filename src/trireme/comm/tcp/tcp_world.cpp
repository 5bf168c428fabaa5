#include "trireme/comm/tcp/tcp_world.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "trireme/comm/tcp/tcp_header.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/core/parse_number.h"
#include "trireme/net/rendezvous.h"
#include "trireme/net/store_server.h"

namespace trireme::comm {
namespace {

constexpr std::string_view kNamePrefix = "rank-";
constexpr std::chrono::milliseconds kDialLimit = std::chrono::seconds(10);
// How long the one who gives up waits for the others to hear why.
constexpr std::chrono::milliseconds kLastWords{500};

std::string node_name(int rank) {
  return text(kNamePrefix, rank);
}

// Who is called so; -1 for a name that no rank has.
int rank_called(std::string_view name, int size) {
  if (!name.starts_with(kNamePrefix))
    return -1;
  const auto rank = parse_number<int>(name.substr(kNamePrefix.size()));
  return rank && *rank >= 0 && *rank < size ? *rank : -1;
}

int rank_of(const net::Peer& peer, int size) {
  return rank_called(peer.name(), size);
}

std::string gone_text(int rank, const std::string& why) {
  return text(
      "[comm] expected rank ",
      rank,
      " to be there, but it is gone (",
      why,
      "); look at its own output");
}

net::OutMessage word(TcpKind kind, const TcpHeader& header) {
  return {.envelope = {.type = static_cast<uint16_t>(kind), .header = encode(header)}};
}

// The message keeps the buffer that it is sent from.
net::OutMessage word_with(TcpKind kind, const TcpHeader& header, Buffer buffer) {
  net::OutMessage message = word(kind, header);
  auto kept = std::make_shared<Buffer>(std::move(buffer));
  message.body.push_back(kept->bytes());
  message.keep = std::move(kept);
  return message;
}

}  // namespace

TcpWorld::TcpWorld(TcpSetup setup)
    : WireWorld(
          {.backend = "tcp",
           .rank = setup.rank,
           .size = setup.size,
           .tuning = setup.tuning,
           .recorder = make_own_recorder(setup.rank, setup.size, setup.flight_folder)}),
      setup_(std::move(setup)),
      exceptions_at_start_(std::uncaught_exceptions()),
      chosen_(static_cast<size_t>(size())),
      inbound_(static_cast<size_t>(size())) {
  for (int i = 0; i < size(); ++i)
    dialling_.push_back(std::make_unique<std::mutex>());
}

std::shared_ptr<TcpWorld> TcpWorld::join(
    const TcpSetup& setup, const Deadline& deadline) {
  // Rank 0 may host the store, in which the others find who has not come.
  const Deadline until = setup.rank == 0 ? deadline.later() : deadline;
  std::optional<std::string> first_reason;
  for (int attempt = 0;; ++attempt) {
    const std::shared_ptr<TcpWorld> world(new TcpWorld(setup));
    try {
      if (world->meet(attempt, until))
        return world;
    } catch (const TcpMeeting::GivenUp& given_up) {
      if (!first_reason)
        first_reason = given_up.why;
    } catch (const TimeoutError&) {
      // Who gave up first knew who was missing; now it is missing itself.
      if (first_reason)
        throw TimeoutError(*first_reason);
      throw;
    } catch (const PeerError& error) {
      // Those who are connected are told who it was, not that this rank leaves because
      // of it.
      world->stop({.origin = error.rank(), .why = error.what()});
      throw;
    }
  }
}

// False if this attempt was over before it began here.
bool TcpWorld::meet(int attempt, const Deadline& deadline) {
  // Kept: the store may go before the last connection is made.
  TcpMeeting meeting(
      {text("world/", setup_.generation, "/", attempt, "/"), setup_.store},
      rank(),
      size(),
      [this] { mail_->check(); });
  // By a world that was closed before, too.
  if (meeting.over())
    return false;
  start_node();
  try {
    meet_neighbours(meeting, deadline);
  } catch (const TcpMeeting::GivenUp&) {
    leave_meeting();
    throw;
  } catch (const TimeoutError&) {
    leave_meeting();
    throw;
  } catch (const Error&) {
    // That of rank 0, perhaps, which has left because of the one who is gone.
    mail_->check();
    const auto why = meeting.given_up();
    if (!why)
      throw;
    leave_meeting();
    throw TcpMeeting::GivenUp{*why};
  }
  return true;
}

void TcpWorld::start_node() {
  node_ = std::make_unique<net::Node>(
      net::NodeOptions{
          .name = node_name(rank()),
          .job = setup_.job,
          .incarnation = setup_.incarnation << 32 | setup_.generation,
          .security = setup_.security,
          .listen = {setup_.listen},
          // What goes at once must not be overtaken by the word that its sender left.
          // All else is acknowledged at once: its sender waits for that.
          .limits = {.small_bytes = kEagerBytes + encode(TcpHeader{}).size()},
          .heartbeat = setup_.heartbeat},
      *this);
}

// Nobody has failed: the others wait, or try again, and hear nothing of it.
void TcpWorld::leave_meeting() {
  leaving_ = true;
  node_->close();
}

void TcpWorld::meet_neighbours(TcpMeeting& meeting, const Deadline& deadline) {
  // Who dies before it is connected to anybody has left its trace in the store.
  const net::StoreWatch gone =
      setup_.store->watch(net::kGonePrefix, [this](const net::StoreChange& change) {
        if (change.kind == net::StoreChange::Kind::Set)
          note_gone(change.key, change.value);
        else if (change.kind == net::StoreChange::Kind::Lost)
          look_for_gone();
      });
  look_for_gone();
  addresses_ = meeting.trade_addresses(own_address(), deadline);
  if (size() == 1)
    return;
  peer((rank() + 1) % size(), deadline, [&meeting] { meeting.check(); });
  // Nobody goes on, and perhaps leaves, before all have met their neighbours.
  meeting.pass(deadline);
}

std::string TcpWorld::own_address() const {
  net::Address address = node_->addresses().front();
  if (!setup_.host.empty())
    address.host = setup_.host;
  return address.text();
}

void TcpWorld::note_gone(const std::string& key, const std::string& why) {
  const int rank = rank_called(key.substr(net::kGonePrefix.size()), size());
  if (rank >= 0)
    fail({.origin = rank, .why = gone_text(rank, why)}, true);
}

void TcpWorld::look_for_gone() {
  try {
    for (const std::string& key : setup_.store->keys(net::kGonePrefix))
      if (const auto why = setup_.store->try_get(key))
        note_gone(key, *why);
  } catch (const PeerError& error) {  // the rank that hosts the store
    fail({.origin = error.rank(), .why = error.what()}, true);
  }
}

TcpWorld::~TcpWorld() {
  if (std::uncaught_exceptions() > exceptions_at_start_)
    stop(
        {.origin = rank(),
         .why = text(
             "[comm] rank ",
             rank(),
             " left its world by an exception; see its own output")});
  // The other world need not wait for the goodbyes of this one.
  mail_->ring_along({});
  bell_.reset();
  leaving_ = true;
  if (node_)
    node_->close();
}

// -- peers

std::optional<net::Peer> TcpWorld::known_peer(int rank) {
  const std::lock_guard lock(mutex_);
  auto& chosen = chosen_[static_cast<size_t>(rank)];
  // Once chosen it stays: messages over two sessions would not keep their order.
  if (!chosen)
    chosen = inbound_[static_cast<size_t>(rank)];
  return chosen ? std::optional(chosen) : std::nullopt;
}

// Two ranks that dial each other at once have two sessions.
std::vector<net::Peer> TcpWorld::sessions_with(int rank) {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<size_t>(rank);
  std::vector<net::Peer> sessions;
  for (const net::Peer& one : {chosen_[at], inbound_[at]})
    if (one && (sessions.empty() || sessions.front() != one))
      sessions.push_back(one);
  return sessions;
}

bool TcpWorld::has_other_session(int rank, const net::Peer& than) {
  for (const net::Peer& one : sessions_with(rank))
    if (one != than && !one.ended())
      return true;
  return false;
}

net::Peer TcpWorld::peer(
    int rank, const Deadline& deadline, const Check& while_dialling) {
  if (const auto known = known_peer(rank))
    return *known;
  const std::lock_guard dialling(*dialling_[static_cast<size_t>(rank)]);
  if (const auto known = known_peer(rank))
    return *known;
  check();
  const auto look = while_dialling ? while_dialling : [this] { mail_->check(); };
  const net::Peer dialled = dial(rank, deadline, look);
  const std::lock_guard lock(mutex_);
  auto& chosen = chosen_[static_cast<size_t>(rank)];
  if (!chosen)
    chosen = dialled;
  return chosen;
}

// All nodes listen since the start: who does not answer is gone.
net::Peer TcpWorld::dial(int rank, const Deadline& deadline, const Check& check) {
  const auto address = net::Address::parse(addresses_[static_cast<size_t>(rank)]);
  const auto limit = std::min(
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining()),
      kDialLimit);
  try {
    return node_->connect(node_name(rank), address, Deadline::after(limit), check);
  } catch (const TimeoutError& error) {
    throw PeerError(
        rank,
        text(
            "[comm] expected rank ",
            rank,
            " at ",
            address.text(),
            ", but it has left its world or cannot be reached; look at its own output "
            "(",
            error.what(),
            ")"));
  }
}

void TcpWorld::joined(const net::Peer& peer) {
  const int rank = rank_of(peer, size());
  if (rank < 0)
    throw InvalidArgument(text(
        "[comm] expected a rank of this world, got a node called ",
        peer.name(),
        "; see that no other program uses the job's key"));
  const std::lock_guard lock(mutex_);
  inbound_[static_cast<size_t>(rank)] = peer;
}

// -- transfers and messages out

void TcpWorld::push(const net::Peer& peer, const TcpTransferPtr& transfer) {
  net::OutMessage message =
      word(TcpKind::Transfer, {.group = transfer->group, .number = transfer->number});
  message.body.push_back({transfer->data, transfer->bytes});
  message.done = [mail = mail_, transfer](bool arrived) {
    mail->sent(transfer, arrived);
  };
  peer.send(std::move(message));
}

void TcpWorld::start_send(const TcpTransferPtr& transfer, const Deadline& deadline) {
  if (transfer->bytes <= kEagerBytes) {
    send_copy(
        transfer->group,
        transfer->peer,
        transfer->number,
        {transfer->data, transfer->bytes},
        deadline);
    transfer->done = true;
    return;
  }
  const net::Peer to = peer(transfer->peer, deadline);
  if (mail_->may_send(transfer))
    push(to, transfer);
}

void TcpWorld::send_copy(
    uint32_t group,
    int to,
    uint64_t number,
    std::span<const std::byte> bytes,
    const Deadline& deadline) {
  Buffer copy = pool_.take(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  peer(to, deadline)
      .send(word_with(
          TcpKind::Transfer, {.group = group, .number = number}, std::move(copy)));
}

void TcpWorld::start_receive(const TcpTransferPtr& transfer, const Deadline& deadline) {
  try {
    if (mail_->expect(transfer) || transfer->bytes <= kEagerBytes)
      return;
  } catch (const InvalidArgument& error) {
    // It was here before anybody waited for it: no session is left to blame.
    fail({.origin = transfer->peer, .why = error.what()}, true);
    check();
  }
  peer(transfer->peer, deadline)
      .send(
          word(TcpKind::Ready, {.group = transfer->group, .number = transfer->number}));
}

void TcpWorld::send_message(
    const TcpChannelKey& key, Buffer message, const Deadline& deadline) {
  const auto& [group, to, tag] = key;
  if (to == rank())
    return mail_->deliver(key, std::move(message));
  peer(to, deadline)
      .send(word_with(
          TcpKind::Message, {.group = group, .tag = tag}, std::move(message)));
}

void TcpWorld::send_credit(const TcpChannelKey& key, const WireCredit& credit) {
  const auto& [group, to, tag] = key;
  if (to == rank())
    return mail_->set_credit(key, credit);
  // Who has sent something can be reached over the same session.
  if (const auto known = known_peer(to))
    known->send(word(
        TcpKind::Credit,
        {.group = group,
         .number = credit.messages,
         .tag = tag,
         .bytes = credit.bytes}));
}

void TcpWorld::send_closed(const TcpChannelKey& key, uint64_t messages) {
  const auto& [group, to, tag] = key;
  if (to == rank())
    return mail_->close_channel(key, messages);
  if (const auto known = known_peer(to))
    known->send(
        word(TcpKind::Closed, {.group = group, .number = messages, .tag = tag}));
}

void TcpWorld::leave(uint32_t group, std::span<const int> members) {
  std::vector<int> known;
  for (const int member : members)
    if (member != rank())
      if (const auto session = known_peer(member)) {
        session->send(word(TcpKind::Left, {.group = group}));
        known.push_back(member);
      }
  mail_->close_group(group, known);
}

void TcpWorld::withdraw(std::span<const TcpTransferPtr> transfers) {
  const std::vector<int> touched = mail_->withdraw(transfers);
  // A session takes what it has queued with it: the word why, if there is one, first.
  mail_->await_told(touched, kLastWords);
  for (const int peer : touched)
    for (const net::Peer& session : sessions_with(peer))
      session.drop();
}

void TcpWorld::time_out_channel(const std::string& what) {
  if (!timeout_noted_.exchange(true))
    recorder().dump(rank(), what);
  throw TimeoutError(what);
}

// -- what comes in, on the I/O thread

std::span<std::byte> TcpWorld::place(
    const net::Peer& peer, const net::Envelope& envelope, size_t bytes) {
  if (envelope.type != static_cast<uint16_t>(TcpKind::Transfer))
    return {};
  const TcpHeader header = decode_tcp_header(envelope.header);
  return mail_->place(header.group, rank_of(peer, size()), header.number, bytes);
}

void TcpWorld::received(const net::Peer& peer, net::InMessage message) {
  const TcpHeader header = decode_tcp_header(message.envelope.header);
  const int from = rank_of(peer, size());
  // What lies here is bounded by the calls and the channels themselves.
  message.allowance.reset();
  switch (static_cast<TcpKind>(message.envelope.type)) {
    case TcpKind::Transfer:
      return mail_->arrived(
          header.group, from, header.number, std::move(message.buffer));
    case TcpKind::Ready:
      // The receiver has asked over a session of its own choice; this rank sends over
      // its own.
      if (const auto transfer = mail_->ready(header.group, from, header.number))
        if (const auto known = known_peer(from))
          push(*known, transfer);
      return;
    case TcpKind::Message:
      return mail_->deliver(
          {header.group, from, header.tag}, std::move(message.buffer));
    case TcpKind::Credit:
      return mail_->set_credit(
          {header.group, from, header.tag},
          {.messages = header.number, .bytes = header.bytes});
    case TcpKind::Closed:
      return mail_->close_channel({header.group, from, header.tag}, header.number);
    case TcpKind::Left:
      return mail_->left(header.group, from);
    case TcpKind::Stop:
      mail_->told_by(from);
      return fail(
          {.origin = header.origin, .why = header.why, .timed_out = header.timed_out},
          false);
    case TcpKind::Away:
      return stay_away({.origin = header.origin, .why = header.why});
  }
  throw InvalidArgument(text(
      "[comm] expected a word between ranks, got type ",
      message.envelope.type,
      "; run the same release of Trireme on all ranks"));
}

void TcpWorld::lost(const net::Peer& peer, net::Ending ending, const std::string& why) {
  const int from = rank_of(peer, size());
  if (from < 0 || leaving_)
    return;
  if (ending == net::Ending::Left) {
    // Over another session there may be more on its way.
    if (!has_other_session(from, peer))
      mail_->rank_left(from);
    return;
  }
  if (ending == net::Ending::Closed)
    return fail(
        {.origin = from,
         .why = text(
             "[comm] expected to go on with rank ",
             from,
             ", but rank ",
             rank(),
             " has ended their session (",
             why,
             "); run the same program on all ranks")},
        true);
  fail({.origin = from, .why = gone_text(from, why)}, true);
}

// -- failures

void TcpWorld::check() const {
  mail_->check();
}

void TcpWorld::stop(const Failure& failure) noexcept {
  fail(failure, true);
}

void TcpWorld::fail(const Failure& failure, bool ours) noexcept {
  try {
    {
      const std::lock_guard lock(fail_mutex_);
      if (std::exchange(failed_, true))
        return;
      // First the other world of this rank: nobody sees a failure of one before both
      // refuse. Then the others, for who waits here may leave as soon as it hears.
      tell_failure(failure);
      tell_peers(TcpKind::Stop, failure);
      mail_->fail(failure);
    }
    if (ours)
      recorder().dump(rank(), failure.why);
  } catch (const std::exception& error) {
    TRIREME_LOG(warn, "comm") << "could not note a failure: " << error.what();
  }
}

void TcpWorld::stay_away(const Failure& failure) noexcept {
  if (mail_->note_absence(failure))
    tell_peers(TcpKind::Away, failure);
}

// Everybody tells everybody whom it knows: that reaches all. Where there are two
// sessions, one may be full of what nobody will take any more.
void TcpWorld::tell_peers(TcpKind kind, const Failure& failure) noexcept {
  try {
    for (int peer = 0; peer < size(); ++peer)
      for (const net::Peer& session : sessions_with(peer)) {
        net::OutMessage stop = word(
            kind,
            {.origin = failure.origin,
             .timed_out = failure.timed_out,
             .why = failure.why});
        mail_->telling(peer);
        stop.done = [mail = mail_, peer](bool) { mail->told(peer); };
        session.send(std::move(stop));
      }
  } catch (const std::exception& error) {
    TRIREME_LOG(warn, "comm") << "could not tell the others of a failure: "
                              << error.what();
  }
}

}  // namespace trireme::comm
