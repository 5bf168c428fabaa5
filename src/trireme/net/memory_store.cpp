#include "trireme/net/memory_store.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "trireme/core/error.h"
#include "trireme/net/store_table.h"
#include "trireme/net/watch_thread.h"

namespace trireme::net {
namespace {

// All callers are one client of the table.
constexpr std::uint64_t kSelf = 0;

/// A call that waits for its answer, on the stack of its caller.
struct MemoryCall {
  std::condition_variable answered;
  std::optional<StoreReply> reply;
};

}  // namespace

struct MemoryStore::State {
  explicit State(const StoreLimits& limits) : table(limits) {}

  /// With the lock held: asks the table, and hands out what it says.
  void handle(std::uint64_t id, const StoreRequest& request, Deadline deadline);

  std::mutex mutex;
  StoreTable table;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, MemoryCall*> calls;
  WatchThread watchers;
};

void MemoryStore::State::handle(
    std::uint64_t id, const StoreRequest& request, Deadline deadline) {
  StoreTable::Outputs out;
  const auto now = Deadline::Clock::now();
  // A wait that the table forgets at its deadline could not be told what is missing.
  const auto until = now + deadline.remaining() + std::chrono::hours(1);
  table.handle({kSelf, id}, request, now, until, out);
  for (StoreOutput& output : out) {
    const auto call = calls.find(output.to.request);
    if (call == calls.end()) {
      watchers.push(
          output.to.request,
          std::make_shared<const StoreChange>(store_change(output.reply)));
      continue;
    }
    call->second->reply = std::move(output.reply);
    call->second->answered.notify_one();
    calls.erase(call);
  }
}

MemoryStore::MemoryStore(MemoryStoreOptions options)
    : state_(std::make_shared<State>(options.limits)) {}

MemoryStore::~MemoryStore() {
  state_->watchers.stop();  // a callback may be using this
}

StoreReply MemoryStore::call(StoreRequest request, Deadline deadline) {
  std::unique_lock lock(state_->mutex);
  const std::uint64_t id = ++state_->last_id;
  MemoryCall call;
  state_->calls.emplace(id, &call);
  state_->handle(id, request, deadline);
  const auto answered = [&] { return call.reply.has_value(); };
  if (!call.answered.wait_for(lock, deadline.remaining(), answered))
    state_->handle(id, {.op = StoreOp::Cancel, .target = id}, deadline);
  TRIREME_ASSERT(call.reply.has_value());
  return std::move(*call.reply);
}

Deadline MemoryStore::own_deadline() const {
  // Nothing that this is for ever waits.
  return Deadline::after(std::chrono::minutes(1));
}

StoreWatch MemoryStore::watch(std::string_view prefix, Callback callback) {
  check_store_prefix(prefix);
  const std::lock_guard lock(state_->mutex);
  const std::uint64_t id = ++state_->last_id;
  StoreTable::Outputs out;
  const auto now = Deadline::Clock::now();
  const StoreRequest request{.op = StoreOp::Watch, .key = std::string(prefix)};
  state_->table.handle({kSelf, id}, request, now, now, out);
  throw_if_refused(out.front().reply);
  state_->watchers.add(id, std::move(callback));
  return state_->watchers.handle(id, [state = std::weak_ptr(state_), id] {
    if (const auto there = state.lock()) {
      const std::lock_guard stop_lock(there->mutex);
      StoreTable::Outputs none;
      there->table.handle(
          {kSelf, ++there->last_id},
          {.op = StoreOp::Unwatch, .target = id},
          Deadline::Clock::now(),
          Deadline::Clock::now(),
          none);
    }
  });
}

}  // namespace trireme::net
