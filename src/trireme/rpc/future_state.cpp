#include "trireme/rpc/future_state.h"

#include "trireme/core/log.h"
#include "trireme/rpc/blocking.h"
#include "trireme/rpc/cancelled.h"
#include "trireme/rpc/word_wait.h"

namespace trireme::rpc {
namespace {

// What this thread is about to run, first come, first served.
struct ContinuationQueue {
  Continuation* first = nullptr;
  Continuation* last = nullptr;
  bool running = false;

  void append(Continuation* list) {
    if (!list)
      return;
    (first ? last->next : first) = list;
    for (last = list; last->next;)
      last = last->next;
  }
  void drain() {
    while (Continuation* next = first) {
      first = std::exchange(next->next, nullptr);
      next->run();
    }
  }
};

ContinuationQueue& continuation_queue() {
  thread_local ContinuationQueue queue;
  return queue;
}

Continuation* reversed(Continuation* list) {
  Continuation* out = nullptr;
  while (list) {
    Continuation* next = std::exchange(list->next, out);
    out = std::exchange(list, next);
  }
  return out;
}

StatePointer call_hook(CancelHook& hook, const std::string& why) noexcept {
  try {
    if (hook)
      return hook(why);
  } catch (const std::exception& e) {
    TRIREME_LOG(error, "rpc") << "the cancel hook of a future threw: " << e.what();
  } catch (...) {
    TRIREME_LOG(error, "rpc") << "the cancel hook of a future threw something";
  }
  return nullptr;
}

}  // namespace

void run_continuations(Continuation* first) {
  ContinuationQueue& queue = continuation_queue();
  queue.append(first);
  if (queue.running)
    return;
  queue.running = true;
  queue.drain();
  queue.running = false;
}

void run_put_off_continuations() {
  continuation_queue().drain();
}

// Full or Empty, as whoever has changed the slot to Empty owns the hook. False if
// Taken.
bool CancelSlot::own_again() {
  Stage full = Stage::Full;
  return stage_.compare_exchange_strong(
             full, Stage::Empty, std::memory_order_acq_rel) ||
         full == Stage::Empty;
}

bool CancelSlot::put(CancelHook& hook) {
  if (!own_again())
    return false;
  hook_ = std::move(hook);
  Stage empty = Stage::Empty;
  if (stage_.compare_exchange_strong(empty, Stage::Full, std::memory_order_acq_rel))
    return true;
  // Cancelled meanwhile, by one that saw nothing here.
  hook = std::move(hook_);
  return false;
}

CancelHook CancelSlot::take() {
  if (stage_.exchange(Stage::Taken, std::memory_order_acq_rel) == Stage::Full)
    return std::move(hook_);
  return {};
}

void FutureState::add(Continuation& continuation) {
  Continuation* head = continuations_.load(std::memory_order_acquire);
  do {
    if (head == closed()) {
      continuation.next = nullptr;  // an earlier round may have set it
      return run_continuations(&continuation);
    }
    continuation.next = head;
  } while (!continuations_.compare_exchange_weak(
      head, &continuation, std::memory_order_acq_rel, std::memory_order_acquire));
}

void FutureState::publish() {
  hook_.take();
  // Both sequentially consistent, as in wait(): either this sees the sleeper, or the
  // sleeper sees that it need not sleep.
  Continuation* list = continuations_.exchange(closed(), std::memory_order_seq_cst);
  if (word_.load(std::memory_order_seq_cst) == kSleepers) {
    word_.store(kAwake, std::memory_order_release);
    wake_all_later(word_);
  }
  if (list) {
    wake_late();  // nobody knows what they do
    run_continuations(reversed(list));
  }
}

bool FutureState::wait(const Deadline* deadline) {
  if (ready())
    return true;
  run_put_off_continuations();
  if (ready())
    return true;
  Blocking blocking;
  if (spin_time().count() > 0 && spin_until(spin_time(), [this] { return ready(); }))
    return true;
  std::uint32_t nobody = kNobody;
  word_.compare_exchange_strong(nobody, kSleepers, std::memory_order_seq_cst);
  if (continuations_.load(std::memory_order_seq_cst) == closed())
    return true;
  if (deadline)
    return wait_while(word_, kSleepers, *deadline) || ready();
  wait_while(word_, kSleepers);
  return true;
}

bool FutureState::fail(std::exception_ptr error) {
  if (!claim())
    return false;
  error_ = std::move(error);
  publish();
  return true;
}

bool FutureState::cancel(const std::string& why) {
  StatePointer next;
  if (!cancel_alone(why, next))
    return false;
  while (next) {
    const StatePointer state = std::move(next);
    state->cancel_alone(why, next);
  }
  return true;
}

bool FutureState::cancel_alone(const std::string& why, StatePointer& next) {
  if (!claim())
    return false;
  cancelled_.store(true, std::memory_order_relaxed);
  error_ = std::make_exception_ptr(Cancelled(text(
      "[rpc] expected a result, got the cancellation of what was to make it (",
      why,
      "); ask again if it is needed after all")));
  CancelHook hook = hook_.take();
  next = call_hook(hook, why);
  publish();
  return true;
}

void FutureState::on_cancel(CancelHook hook) {
  const char* why = "it was cancelled before";
  if (!hook_.put(hook) && cancelled_.load(std::memory_order_relaxed))
    if (const StatePointer next = call_hook(hook, why))
      next->cancel(why);
}

void FutureState::decode_once() {
  std::uint32_t stage = kWaits;
  if (decoding_.compare_exchange_strong(stage, kRuns, std::memory_order_acq_rel)) {
    decode();
    if (decoding_.exchange(kDone, std::memory_order_acq_rel) == kWatched)
      wake_all(decoding_);
    return;
  }
  if (stage == kRuns)
    decoding_.compare_exchange_strong(stage, kWatched, std::memory_order_acq_rel);
  wait_while(decoding_, kWatched);
}

}  // namespace trireme::rpc
