#include "trireme/rpc/cancel_token.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "trireme/core/log.h"
#include "trireme/rpc/cancelled.h"
#include "trireme/rpc/word_wait.h"

namespace trireme::rpc {
namespace {

void call_back(CancelToken::Callback& callback, const std::string& why) noexcept {
  try {
    callback(why);
  } catch (const std::exception& e) {
    TRIREME_LOG(error, "rpc") << "a callback of a cancelled call threw: " << e.what();
  } catch (...) {
    TRIREME_LOG(error, "rpc") << "a callback of a cancelled call threw something";
  }
}

}  // namespace

// A callback in its token's ring.
struct CancelToken::Entry {
  Callback callback;
  Entry* before = nullptr;
  Entry* after = nullptr;
};

struct CancelToken::State {
  State() { ring.before = ring.after = &ring; }

  void insert(Entry& entry) {
    entry.before = ring.before;
    entry.after = &ring;
    entry.before->after = &entry;
    ring.before = &entry;
  }
  static bool inside(const Entry& entry) { return entry.after != nullptr; }
  static void take_out(Entry& entry) {
    entry.before->after = entry.after;
    entry.after->before = entry.before;
    entry.before = entry.after = nullptr;
  }

  std::atomic<bool> cancelled{false};
  std::mutex mutex;
  std::condition_variable called;
  std::string why;
  Entry ring;  // the callbacks stand between its `after` and its `before`
  // Whose callback runs, and where.
  const Entry* running = nullptr;
  std::thread::id runner;
  // By which the parent cancels this one. Last: gone before all else.
  CancelRegistration parent;
};

CancelToken CancelToken::make() {
  return CancelToken(std::make_shared<State>());
}

CancelToken CancelToken::child() const {
  CancelToken token = make();
  if (!state_)
    return token;
  // Weak: the registration belongs to the child.
  std::weak_ptr<State> weak = token.state_;
  token.state_->parent = on_cancel([weak](const std::string& why) {
    if (auto state = weak.lock())
      CancelToken(std::move(state)).cancel(why);
  });
  return token;
}

bool CancelToken::cancelled() const {
  return state_ && state_->cancelled.load(std::memory_order_acquire);
}

std::string CancelToken::why() const {
  if (!state_)
    return "";
  const std::lock_guard lock(state_->mutex);
  return state_->why;
}

void CancelToken::throw_if_cancelled() const {
  if (cancelled())
    throw Cancelled(text(
        "[rpc] expected a call that somebody waits for, got its cancellation (",
        why(),
        "); end its work here"));
}

bool CancelToken::cancel(const std::string& why) const {
  if (!state_)
    return false;
  const std::shared_ptr<State> state = state_;  // a callback may drop this token
  const std::string reason = why;
  std::unique_lock lock(state->mutex);
  if (state->cancelled.load(std::memory_order_relaxed))
    return false;
  state->why = reason;
  state->cancelled.store(true, std::memory_order_release);
  state->runner = std::this_thread::get_id();
  while (state->ring.after != &state->ring) {
    Entry* entry = state->ring.after;
    State::take_out(*entry);
    state->running = entry;
    {
      // Its own: a callback may destroy its registration, and the entry with it.
      Callback callback = std::move(entry->callback);
      lock.unlock();
      call_back(callback, reason);
    }
    lock.lock();
    state->running = nullptr;
    state->called.notify_all();
  }
  return true;
}

CancelRegistration CancelToken::on_cancel(Callback callback) const {
  if (!state_)
    return {};
  auto entry = std::make_unique<Entry>();
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->cancelled.load(std::memory_order_relaxed)) {
      entry->callback = std::move(callback);
      state_->insert(*entry);
      return {state_, std::move(entry)};
    }
  }
  call_back(callback, why());
  return {};
}

CancelRegistration::CancelRegistration() = default;
CancelRegistration::CancelRegistration(CancelRegistration&&) noexcept = default;
CancelRegistration::CancelRegistration(
    std::shared_ptr<CancelToken::State> state, std::unique_ptr<Entry> entry)
    : state_(std::move(state)), entry_(std::move(entry)) {}

CancelRegistration& CancelRegistration::operator=(CancelRegistration&& other) noexcept {
  if (this != &other) {
    reset();
    state_ = std::move(other.state_);
    entry_ = std::move(other.entry_);
  }
  return *this;
}

CancelRegistration::~CancelRegistration() {
  reset();
}

void CancelRegistration::reset() noexcept {
  // Moved out first: the token's end may end this registration's owner.
  const auto state = std::move(state_);
  const auto entry = std::move(entry_);
  if (!entry)
    return;
  std::unique_lock lock(state->mutex);
  if (CancelToken::State::inside(*entry)) {
    CancelToken::State::take_out(*entry);
  } else if (state->runner != std::this_thread::get_id()) {
    wake_late();  // the callback may wait for one of them
    state->called.wait(lock, [&] { return state->running != entry.get(); });
  }
  lock.unlock();
}

}  // namespace trireme::rpc
