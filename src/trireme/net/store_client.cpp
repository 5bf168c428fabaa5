#include "trireme/net/store_client.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "trireme/core/error.h"
#include "trireme/net/node.h"
#include "trireme/net/store_protocol.h"
#include "trireme/net/watch_thread.h"

namespace trireme::net {
namespace {

using std::chrono::milliseconds;

// How long the server may take to say what was missing at a deadline.
constexpr milliseconds kLastWord = milliseconds(1000);

/// A call that waits for its answer, on the stack of its caller.
struct RemoteCall {
  std::condition_variable answered;
  std::optional<StoreReply> reply;
};

milliseconds rounded_up(Deadline::Clock::duration time) {
  return std::chrono::ceil<milliseconds>(std::max(time, Deadline::Clock::duration(1)));
}

}  // namespace

class TcpStore::State : public Receiver {
 public:
  explicit State(TcpStoreOptions options)
      : options_(std::move(options)),
        node_(
            {.name = options_.name,
             .job = options_.job,
             .incarnation = options_.incarnation,
             .security = options_.security,
             .limits = store_node_limits(),
             .heartbeat = options_.heartbeat,
             .reconnect = options_.reconnect},
            *this) {
    // No caller is here yet; the node's thread does not look at it.
    server_ = node_.connect(
        options_.server_name, options_.server, Deadline::after(options_.timeout));
  }

  void received(const Peer& peer, InMessage message) override;
  void lost(const Peer& peer, Ending ending, const std::string& why) override;

  StoreReply call(std::uint64_t id, const StoreRequest& request, Deadline deadline);
  std::uint64_t next_id();
  void begin_watch(std::uint64_t id, Store::Callback callback);
  void end_watch(std::uint64_t id);
  WatchThread& watchers() { return watchers_; }
  const TcpStoreOptions& options() const { return options_; }
  void close() { node_.close(); }

 private:
  using Calls = std::map<std::uint64_t, RemoteCall*>;

  void send(std::uint64_t id, const StoreRequest& request, milliseconds timeout) const;
  bool wait(
      std::unique_lock<std::mutex>& lock,
      RemoteCall& call,
      Deadline::Clock::duration time);
  std::string gone_text() const;
  [[noreturn]] void throw_gone() const;
  [[noreturn]] void throw_silent(milliseconds time) const;

  const TcpStoreOptions options_;
  std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  Calls calls_;
  std::set<std::uint64_t> watches_;
  /// Why the server is gone.
  std::optional<std::string> gone_;
  WatchThread watchers_;
  Peer server_;
  // The last: it calls the others until it is gone.
  Node node_;
};

void TcpStore::State::received(const Peer&, InMessage message) {
  const Envelope& envelope = message.envelope;
  StoreReply reply = decode_store_reply(
      envelope.type,
      envelope.header,
      {reinterpret_cast<const char*>(message.body.data()), message.body.size()});
  const std::lock_guard lock(mutex_);
  if (const auto call = calls_.find(envelope.request); call != calls_.end()) {
    call->second->reply = std::move(reply);
    call->second->answered.notify_one();
    calls_.erase(call);
  } else if (watches_.count(envelope.request) > 0) {
    watchers_.push(
        envelope.request, std::make_shared<const StoreChange>(store_change(reply)));
  }  // else its caller has given up
}

void TcpStore::State::lost(const Peer&, Ending ending, const std::string& why) {
  const std::lock_guard lock(mutex_);
  gone_ = ending == Ending::Left ? "it has ended the store" : why;
  for (const auto& [id, call] : calls_)
    call->answered.notify_one();
  const auto change =
      std::make_shared<const StoreChange>(StoreChange{.kind = StoreChange::Kind::Lost});
  for (const std::uint64_t id : watches_)
    watchers_.push(id, change);
}

std::uint64_t TcpStore::State::next_id() {
  const std::lock_guard lock(mutex_);
  return ++last_id_;
}

StoreReply TcpStore::State::call(
    std::uint64_t id, const StoreRequest& request, Deadline deadline) {
  RemoteCall call;
  std::unique_lock lock(mutex_);
  if (gone_)
    throw_gone();
  calls_.emplace(id, &call);
  lock.unlock();
  try {
    send(id, request, rounded_up(deadline.remaining()));
  } catch (...) {
    lock.lock();
    calls_.erase(id);
    throw;
  }
  lock.lock();
  const bool waits = request.op == StoreOp::Get || request.op == StoreOp::Wait;
  if (!wait(lock, call, deadline.remaining()) && waits) {
    lock.unlock();
    send(id, {.op = StoreOp::Cancel, .target = id}, kLastWord);
    lock.lock();
    wait(lock, call, kLastWord);
  }
  calls_.erase(id);
  if (call.reply)
    return std::move(*call.reply);
  if (gone_)
    throw_gone();
  throw_silent(waits ? deadline.allowed() + kLastWord : deadline.allowed());
}

bool TcpStore::State::wait(
    std::unique_lock<std::mutex>& lock,
    RemoteCall& call,
    Deadline::Clock::duration time) {
  return call.answered.wait_for(
      lock, time, [&] { return call.reply.has_value() || gone_.has_value(); });
}

void TcpStore::State::send(
    std::uint64_t id, const StoreRequest& request, milliseconds timeout) const {
  server_.send(store_out_message(encode(request), id, timeout));
}

void TcpStore::State::begin_watch(std::uint64_t id, Store::Callback callback) {
  const std::lock_guard lock(mutex_);
  watches_.insert(id);
  watchers_.add(id, std::move(callback));
}

void TcpStore::State::end_watch(std::uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    if (watches_.erase(id) == 0 || gone_)
      return;
  }
  send(next_id(), {.op = StoreOp::Unwatch, .target = id}, milliseconds(0));
}

std::string TcpStore::State::gone_text() const {
  return text(
      "[net] expected the store at ",
      options_.server.text(),
      " to answer, got none: ",
      *gone_,
      "; it ends with the process that hosts it, so see why that one ended");
}

void TcpStore::State::throw_gone() const {
  if (options_.server_rank >= 0)
    throw PeerError(options_.server_rank, gone_text());
  throw Error(gone_text());
}

void TcpStore::State::throw_silent(milliseconds time) const {
  throw TimeoutError(text(
      "[net] expected the store at ",
      options_.server.text(),
      " to answer within ",
      time.count(),
      " ms, got nothing, though what was asked may still take effect; see whether the "
      "process that hosts it is stopped or overloaded"));
}

TcpStore::TcpStore(TcpStoreOptions options)
    : state_(std::make_shared<State>(std::move(options))) {}

TcpStore::~TcpStore() {
  // First the node, so that a callback that waits for the server waits no longer.
  state_->close();
  state_->watchers().stop();
}

StoreReply TcpStore::call(StoreRequest request, Deadline deadline) {
  return state_->call(state_->next_id(), request, deadline);
}

Deadline TcpStore::own_deadline() const {
  return Deadline::after(state_->options().timeout);
}

StoreWatch TcpStore::watch(std::string_view prefix, Callback callback) {
  check_store_prefix(prefix);
  const std::uint64_t id = state_->next_id();
  // Before the server knows: the first change may come right behind its answer.
  state_->begin_watch(id, std::move(callback));
  StoreWatch handle =
      state_->watchers().handle(id, [state = std::weak_ptr(state_), id] {
        if (const auto there = state.lock())
          there->end_watch(id);
      });
  const StoreReply reply = state_->call(
      id, {.op = StoreOp::Watch, .key = std::string(prefix)}, own_deadline());
  throw_if_refused(reply);
  return handle;
}

}  // namespace trireme::net
