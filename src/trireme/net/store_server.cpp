#include "trireme/net/store_server.h"

#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/net/node.h"
#include "trireme/net/store_protocol.h"
#include "trireme/net/store_table.h"
#include "trireme/net/watch_gate.h"

namespace trireme::net {
namespace {

// A client takes its wait back at the deadline and is told what is missing; this is for
// those that do not.
constexpr auto kWaitGrace = std::chrono::seconds(2);

struct StoreClient {
  std::uint64_t id = 0;
  /// What it has asked while it had too much to take.
  std::deque<InMessage> held;
  std::map<std::uint64_t, WatchGate> gates;
};

/// A message that is sent once the lock is open: the call may come straight back.
struct StorePost {
  Peer peer;
  OutMessage message;
};

std::string_view body_text(const InMessage& message) {
  return {reinterpret_cast<const char*>(message.body.data()), message.body.size()};
}

}  // namespace

class StoreServer::Desk : public Receiver {
 public:
  explicit Desk(StoreServerOptions options)
      : client_bytes_(options.client_bytes),
        tell_gone_(options.tell_gone),
        table_(options.limits),
        node_(
            {.name = options.name,
             .job = options.job,
             .incarnation = options.incarnation,
             .security = options.security,
             .listen = options.listen,
             .limits = store_node_limits(),
             .heartbeat = options.heartbeat,
             .reconnect = options.reconnect,
             .linger = options.linger},
            *this) {}

  void joined(const Peer& peer) override;
  void received(const Peer& peer, InMessage message) override;
  void lost(const Peer& peer, Ending ending, const std::string& why) override;

  const Node& node() const { return node_; }
  StoreServerStats stats() const;

 private:
  using Posts = std::vector<StorePost>;
  using Clients = std::map<Peer, StoreClient>;

  bool is_full(const Peer& peer) const { return peer.queued_bytes() > client_bytes_; }
  void answer(StoreClient& client, const InMessage& message, Posts& posts);
  void change_own(const StoreRequest& request, Posts& posts);
  void post(StoreOutput output, Posts& posts);
  void post_lost(const Peer& peer, StoreCaller to, Posts& posts);
  void reply_arrived(std::uint64_t id);
  void lost_arrived(StoreCaller to);
  static void send(Posts posts);

  const std::size_t client_bytes_;
  const bool tell_gone_;
  mutable std::mutex mutex_;
  StoreTable table_;
  std::uint64_t last_client_ = 0;
  Clients clients_;
  std::map<std::uint64_t, Clients::iterator> by_id_;
  // The last: it calls the others until it is gone.
  Node node_;
};

void StoreServer::Desk::joined(const Peer& peer) {
  Posts posts;
  {
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = clients_.try_emplace(peer);
    if (!fresh)
      return;
    at->second.id = ++last_client_;
    by_id_.emplace(at->second.id, at);
    if (tell_gone_)
      change_own({.op = StoreOp::Erase, .key = text(kGonePrefix, peer.name())}, posts);
  }
  send(std::move(posts));
}

// What the server itself does with the store; nobody is answered, but watchers hear it.
void StoreServer::Desk::change_own(const StoreRequest& request, Posts& posts) {
  const auto now = Deadline::Clock::now();
  StoreTable::Outputs out;
  table_.handle({0, 0}, request, now, now, out);
  for (StoreOutput& output : out)
    post(std::move(output), posts);
}

void StoreServer::Desk::received(const Peer& peer, InMessage message) {
  Posts posts;
  {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(peer);
    if (found == clients_.end())
      return;
    StoreClient& client = found->second;
    // The message keeps its allowance, so that the client cannot send for ever.
    if (!client.held.empty() || is_full(peer))
      client.held.push_back(std::move(message));
    else
      answer(client, message, posts);
  }
  send(std::move(posts));
}

void StoreServer::Desk::lost(const Peer& peer, Ending ending, const std::string& why) {
  if (ending == Ending::Lost)
    TRIREME_LOG(info, "net") << "the store has lost " << peer.name() << ": " << why;
  StoreClient gone;  // what it asked dies without the lock
  Posts posts;
  {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(peer);
    if (found == clients_.end())
      return;
    gone = std::move(found->second);
    by_id_.erase(gone.id);
    clients_.erase(found);
    table_.forget(gone.id);
    if (tell_gone_ && ending == Ending::Lost)
      change_own(
          {.op = StoreOp::Set,
           .key = text(kGonePrefix, peer.name()),
           .value = store_value(why)},
          posts);
  }
  send(std::move(posts));
}

void StoreServer::Desk::answer(
    StoreClient& client, const InMessage& message, Posts& posts) {
  const Envelope& envelope = message.envelope;
  const StoreRequest request =
      decode_store_request(envelope.type, envelope.header, body_text(message));
  const auto timeout =
      envelope.timeout.count() > 0 ? envelope.timeout : Deadline::kLongest;
  const auto now = Deadline::Clock::now();
  if (request.op == StoreOp::Unwatch)
    client.gates.erase(request.target);
  StoreTable::Outputs out;
  table_.handle(
      {client.id, envelope.request},
      request,
      now,
      now + std::min(timeout, Deadline::kLongest) + kWaitGrace,
      out);
  if (request.op == StoreOp::Watch && out.front().reply.kind == StoreAnswer::Done)
    client.gates.try_emplace(envelope.request);
  for (StoreOutput& output : out)
    post(std::move(output), posts);
}

void StoreServer::Desk::post(StoreOutput output, Posts& posts) {
  const auto found = by_id_.find(output.to.client);
  if (found == by_id_.end())
    return;
  auto& [peer, client] = *found->second;
  const auto gate = client.gates.find(output.to.request);
  // The first answer to a watch says that it has begun; all others are changes.
  if (gate != client.gates.end() && output.reply.kind != StoreAnswer::Done) {
    switch (gate->second.change(is_full(peer))) {
      case WatchGate::Send::Lost:
        return post_lost(peer, output.to, posts);
      case WatchGate::Send::Nothing:
        return;
      case WatchGate::Send::Change:
        break;
    }
  }
  OutMessage message = store_out_message(
      encode(output.reply), output.to.request, std::chrono::milliseconds(0));
  message.done = [this, id = output.to.client](bool arrived) {
    if (arrived)
      reply_arrived(id);
  };
  posts.push_back({peer, std::move(message)});
}

void StoreServer::Desk::post_lost(const Peer& peer, StoreCaller to, Posts& posts) {
  OutMessage message = store_out_message(
      encode({.kind = StoreAnswer::Lost}), to.request, std::chrono::milliseconds(0));
  message.done = [this, to](bool arrived) {
    if (!arrived)
      return;
    lost_arrived(to);
    reply_arrived(to.client);
  };
  posts.push_back({peer, std::move(message)});
}

// A client has taken something: what it asked meanwhile may be answered.
void StoreServer::Desk::reply_arrived(std::uint64_t id) {
  Posts posts;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    if (found == by_id_.end())
      return;
    auto& [peer, client] = *found->second;
    auto& held = client.held;
    try {
      while (!held.empty() && !is_full(peer)) {
        const InMessage message = std::move(held.front());
        held.pop_front();
        answer(client, message, posts);
        // What was just answered is not in the queue yet.
        if (!posts.empty())
          break;
      }
    } catch (const InvalidArgument& error) {
      TRIREME_LOG(warn, "net") << peer.name() << ": " << error.what();
      held.clear();
      peer.close();
    }
  }
  send(std::move(posts));
}

void StoreServer::Desk::lost_arrived(StoreCaller to) {
  Posts posts;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(to.client);
    if (found == by_id_.end())
      return;
    auto& [peer, client] = *found->second;
    const auto gate = client.gates.find(to.request);
    if (gate != client.gates.end() &&
        gate->second.lost_arrived() == WatchGate::Send::Lost)
      post_lost(peer, to, posts);
  }
  send(std::move(posts));
}

void StoreServer::Desk::send(Posts posts) {
  for (StorePost& one : posts)
    one.peer.send(std::move(one.message));
}

StoreServerStats StoreServer::Desk::stats() const {
  const std::lock_guard lock(mutex_);
  StoreServerStats stats{
      .clients = clients_.size(),
      .entries = table_.map().size(),
      .bytes = table_.map().bytes(),
      .waits = table_.waits(),
      .watches = table_.watches()};
  for (const auto& [peer, client] : clients_)
    stats.held_requests += client.held.size();
  return stats;
}

StoreServer::StoreServer(StoreServerOptions options)
    : desk_(std::make_unique<Desk>(std::move(options))) {}

StoreServer::~StoreServer() = default;

std::vector<Address> StoreServer::addresses() const {
  return desk_->node().addresses();
}

StoreServerStats StoreServer::stats() const {
  return desk_->stats();
}

}  // namespace trireme::net
