#include "trireme/net/watch_thread.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "trireme/core/log.h"

namespace trireme::net {

struct WatchThread::State {
  struct Watch {
    std::shared_ptr<const Store::Callback> callback;
    std::deque<std::shared_ptr<const StoreChange>> changes;
    std::size_t bytes = 0;
  };

  explicit State(std::size_t most) : most_bytes(most) {}

  void run();
  void remove(std::uint64_t id);
  /// The first watch after the one that was served last, so that one with many changes
  /// does not starve the others.
  std::map<std::uint64_t, Watch>::iterator next_with_changes();

  const std::size_t most_bytes;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, Watch> watches;
  /// The watch whose callback runs now, or ran last.
  std::uint64_t served = 0;
  bool running = false;
  bool ended = false;
  std::thread thread;
};

namespace {

std::size_t change_bytes(const StoreChange& change) {
  return change.key.size() + change.value.size() + kStoreEntryBytes;
}

void call_watcher(const Store::Callback& callback, const StoreChange& change) {
  try {
    callback(change);
  } catch (const std::exception& error) {
    TRIREME_LOG(error, "net") << "a watcher of the store has thrown: " << error.what();
  }
}

}  // namespace

void WatchThread::State::run() {
  std::unique_lock lock(mutex);
  while (!ended) {
    const auto at = next_with_changes();
    if (at == watches.end()) {
      changed.wait(lock);
      continue;
    }
    const auto change = std::move(at->second.changes.front());
    at->second.changes.pop_front();
    at->second.bytes -= change_bytes(*change);
    auto callback = at->second.callback;
    served = at->first;
    running = true;
    lock.unlock();
    call_watcher(*callback, *change);
    // It may be the last to hold the store, and so this: not under the lock.
    callback.reset();
    lock.lock();
    running = false;
    changed.notify_all();
  }
}

std::map<std::uint64_t, WatchThread::State::Watch>::iterator
WatchThread::State::next_with_changes() {
  auto at = watches.upper_bound(served);
  for (std::size_t i = 0; i < watches.size(); ++i, ++at) {
    if (at == watches.end())
      at = watches.begin();
    if (!at->second.changes.empty())
      return at;
  }
  return watches.end();
}

void WatchThread::State::remove(std::uint64_t id) {
  std::unique_lock lock(mutex);
  // The callback dies outside the lock: what it holds may be a store.
  const auto watch = watches.extract(id);
  if (std::this_thread::get_id() != thread.get_id())
    changed.wait(lock, [&] { return !running || served != id; });
  lock.unlock();
}

WatchThread::WatchThread(std::size_t most_bytes)
    : state_(std::make_shared<State>(most_bytes)) {}

void WatchThread::stop() {
  std::unique_lock lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
  std::thread thread = std::move(state_->thread);
  const auto watches = std::move(state_->watches);
  state_->watches.clear();
  lock.unlock();
  if (!thread.joinable())
    return;
  if (thread.get_id() == std::this_thread::get_id())
    thread.detach();  // it holds the state itself, and ends after this callback
  else
    thread.join();
}

void WatchThread::add(std::uint64_t id, Store::Callback callback) {
  const std::lock_guard lock(state_->mutex);
  if (state_->ended)
    return;
  state_->watches.emplace(
      id,
      State::Watch{
          .callback = std::make_shared<const Store::Callback>(std::move(callback))});
  if (!state_->thread.joinable())
    state_->thread = std::thread([state = state_] { state->run(); });
}

StoreWatch WatchThread::handle(std::uint64_t id, std::function<void()> stop) {
  return StoreWatch([state = std::weak_ptr(state_), id, stop = std::move(stop)] {
    stop();
    if (const auto there = state.lock())
      there->remove(id);
  });
}

void WatchThread::push(std::uint64_t id, std::shared_ptr<const StoreChange> change) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->watches.find(id);
  if (found == state_->watches.end())
    return;
  State::Watch& watch = found->second;
  watch.bytes += change_bytes(*change);
  watch.changes.push_back(std::move(change));
  if (watch.bytes > state_->most_bytes) {
    static const auto lost = std::make_shared<const StoreChange>(
        StoreChange{.kind = StoreChange::Kind::Lost});
    watch.changes.assign(1, lost);
    watch.bytes = change_bytes(*lost);
  }
  state_->changed.notify_all();
}

void WatchThread::remove(std::uint64_t id) {
  state_->remove(id);
}

}  // namespace trireme::net
