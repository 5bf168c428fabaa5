#include "trireme/launch/leader.h"

#include <poll.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/launch/log_files.h"
#include "trireme/launch/variables.h"
#include "trireme/net/rendezvous.h"

namespace trireme::launch {
namespace {

using Clock = std::chrono::steady_clock;

// When a start is over its ranks have ended, or cannot be reached: nobody waits long
// for what the store has still to tell them.
constexpr auto kStoreLinger = std::chrono::milliseconds(200);

net::Security rank_security(const std::optional<net::JobKey>& key) {
  return key ? net::Security::job_key(*key) : net::Security::insecure_loopback();
}

}  // namespace

net::OutMessage node_message(const Word& word) {
  return {.envelope = {.type = 1, .header = encode(word)}};
}

net::Address meeting_address(const Options& options) {
  return net::Address::tcp(options.master_addr, options.master_port);
}

Leader::Leader(const Options& options, const net::Security& security, std::string token)
    : options_(options),
      token_(std::move(token)),
      log_name_(run_folder_name(options.run_id)),
      key_(security.encrypted() ? std::optional(net::JobKey::random()) : std::nullopt),
      rounds_(
          {.least = options.nodes->least,
           .most = options.nodes->most,
           .max_restarts = options.max_restarts,
           .join = options.nodes->join,
           .last_call = options.nodes->last_call,
           .run_id = options.run_id},
          Clock::now()),
      node_(std::make_unique<net::Node>(
          net::NodeOptions{
              .name = kLeaderName,
              .job = kLaunchJob,
              .security = security,
              .listen = {net::listen_address(meeting_address(options))},
              .heartbeat = kNodeHeartbeat},
          *this)) {}

Leader::~Leader() {
  node_->close();
}

void Leader::received(const net::Peer& peer, net::InMessage message) {
  Word word = decode_word(message.envelope.header);
  // Nobody takes the place of another node, and with it the key of the ranks.
  if (word.kind == Word::Kind::Join && peer.name() != node_name(word.card))
    throw InvalidArgument(text(
        "[launch] expected ",
        node_name(word.card),
        ", got ",
        in_quotes(peer.name()),
        "; give each node a certificate of its own name"));
  mailbox_.put({.peer = peer, .word = std::move(word), .why = {}});
}

void Leader::lost(const net::Peer& peer, net::Ending, const std::string& why) {
  mailbox_.put({.peer = peer, .word = {}, .why = why});
}

void Leader::attend() {
  for (const Event& event : mailbox_.take())
    take(event);
  post();
}

void Leader::finish(const Deadline& deadline) {
  attend();
  while (own_id_ != 0 && !deadline.expired()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    pollfd wait{.fd = mailbox_.fd(), .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, static_cast<int>(left.count()));
    attend();
  }
}

void Leader::cannot_gather(const std::string& why) {
  rounds_.cannot_gather(why);
  post();
}

void Leader::take(const Event& event) {
  const auto found = ids_.find(event.peer);
  if (!event.word) {
    if (found == ids_.end())
      return;
    rounds_.gone(found->second, event.why);
    if (found->second == own_id_)
      own_id_ = 0;
    peers_.erase(found->second);
    ids_.erase(found);
  } else if (found == ids_.end() && event.word->kind == Word::Kind::Join) {
    const int id = ++last_id_;
    ids_[event.peer] = id;
    peers_[id] = event.peer;
    const bool own = event.word->card.token == token_;
    if (own)
      own_id_ = id;
    rounds_.join(id, event.word->card, own);
  } else if (found != ids_.end() && event.word->kind == Word::Kind::Lost) {
    rounds_.gone(found->second, event.word->text);
  } else if (found != ids_.end()) {
    rounds_.hear(found->second, *event.word);
  }
  // One by one: what a word decides, the next may meet.
  post();
}

void Leader::post() {
  for (auto letters = rounds_.next(Clock::now()); !letters.empty();
       letters = rounds_.next(Clock::now()))
    for (Letter& letter : letters)
      send(std::move(letter));
}

void Leader::send(Letter letter) {
  const auto peer = peers_.find(letter.to);
  if (peer == peers_.end())
    return;
  if (NodePlace& place = letter.word.place; letter.word.kind == Word::Kind::Go) {
    if (place.attempt != store_attempt_)
      open_store(place.attempt);
    if (rounds_.over())
      return;
    place.master_addr = meeting_address(options_).host;
    place.master_port = master_port_;
    place.store =
        net::Address::tcp(meeting_address(options_).host, store_->addresses()[0].port)
            .text();
    place.log_name = log_name_;
    if (key_)
      place.job_key = key_->text();
  }
  peer->second.send(node_message(letter.word));
}

// A store of its own for each start: a rank of a former one finds nothing there, and is
// refused.
void Leader::open_store(int attempt) try {
  store_attempt_ = attempt;
  store_.reset();
  net::Address where = net::listen_address(meeting_address(options_));
  where.port = 0;
  store_ = std::make_unique<net::StoreServer>(net::StoreServerOptions{
      .listen = {where},
      .security = rank_security(key_),
      .job = options_.run_id,
      .incarnation = static_cast<std::uint64_t>(attempt),
      .tell_gone = true,
      .linger = kStoreLinger});
  master_port_ = free_port();
} catch (const Error& error) {
  rounds_.cannot_start(
      text("expected a store for the ranks, got none: ", error.what()));
}

}  // namespace trireme::launch
