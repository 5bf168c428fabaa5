// The state that a promise and its futures share: private to rpc.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "trireme/core/deadline.h"
#include "trireme/rpc/small_function.h"

namespace trireme::rpc {

/// Something that goes on when a future is ready. Lies in what it belongs to, so that
/// waiting in a list takes no memory.
class Continuation {
 public:
  virtual void run() noexcept = 0;
  Continuation* next = nullptr;

 protected:
  ~Continuation() = default;
};

/// Runs continuations, unless this thread is about to run others: then after them, so
/// that chains of any length need no stack.
void run_continuations(Continuation* first);

/// Runs what run_continuations() has put off on this thread: before the thread waits,
/// since that may be what it waits for.
void run_put_off_continuations();

class FutureState;
struct ReleaseState {
  void operator()(FutureState* state) const noexcept;
};
/// One reference.
using StatePointer = std::unique_ptr<FutureState, ReleaseState>;

/// What a producer does when nobody needs its value. It may name a state that is to be
/// cancelled next: not by itself, since chains are longer than stacks.
using CancelHook = SmallFunction<StatePointer(const std::string& why)>;

/// The place of one hook, which the producer puts in and the end takes out; they may
/// meet.
class CancelSlot {
 public:
  /// In place of another; one at a time. False after take(): the hook is left alone.
  bool put(CancelHook& hook);
  /// What is here; from now on nothing comes in.
  CancelHook take();

 private:
  enum class Stage : std::uint8_t { Empty, Full, Taken };
  bool own_again();
  std::atomic<Stage> stage_{Stage::Empty};
  CancelHook hook_;
};

/// Finished once, by the first that may: the producer, or who cancels.
class FutureState {
 public:
  /// Begins with one reference, which is not a holder's.
  FutureState() = default;
  virtual ~FutureState() = default;
  FutureState(const FutureState&) = delete;
  FutureState& operator=(const FutureState&) = delete;

  /// Counts: holders are futures, who may look at the value; all keep the state alive.
  static constexpr std::uint64_t kReference = 1;
  static constexpr std::uint64_t kHolder = (std::uint64_t{1} << 32) + 1;
  void retain(std::uint64_t what) { count_.fetch_add(what, std::memory_order_relaxed); }
  void release(std::uint64_t what) noexcept {
    if (count_.fetch_sub(what, std::memory_order_acq_rel) == what)
      delete this;
  }
  std::uint64_t holders() const {
    return count_.load(std::memory_order_acquire) / (std::uint64_t{1} << 32);
  }

  bool ready() const {
    return continuations_.load(std::memory_order_acquire) == closed();
  }
  /// Whether it is ready, or will be at once.
  bool claimed() const { return claimed_.load(std::memory_order_acquire); }
  /// Waits; without a deadline until it is ready.
  bool wait(const Deadline* deadline);
  /// Runs the continuation when it is ready, here and now if it is.
  void add(Continuation& continuation);

  /// Ends with an error; false if it has ended.
  bool fail(std::exception_ptr error);
  /// Ends with Cancelled and calls the hook; false if it has ended.
  bool cancel(const std::string& why);
  /// Sets the hook, in place of another; called at once if it was cancelled.
  void on_cancel(CancelHook hook);

  /// The error, if it ended with one; it must be ready. Decodes.
  const std::exception_ptr& error() {
    settle();
    return error_;
  }

 protected:
  /// True for the one that may put the result in and call publish().
  bool claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }
  void publish();
  /// To be called before publish(): decode() makes the result when somebody looks.
  void decode_later() { decoding_.store(kWaits, std::memory_order_relaxed); }
  virtual void decode() noexcept {}
  /// Returns when the result is there.
  void settle() {
    if (decoding_.load(std::memory_order_acquire) != kDone)
      decode_once();
  }
  std::exception_ptr error_;

 private:
  // Cancels this one; `next` is what is to be cancelled with it.
  bool cancel_alone(const std::string& why, StatePointer& next);
  // What the list is when it is too late to be put into it.
  static Continuation* closed() {
    return reinterpret_cast<Continuation*>(alignof(Continuation));
  }
  void decode_once();

  // Of word_: whether somebody sleeps.
  static constexpr std::uint32_t kNobody = 0, kSleepers = 1, kAwake = 2;
  // Of decoding_: whether it is done, by whom, and whether somebody sleeps until then.
  static constexpr std::uint32_t kDone = 0, kWaits = 1, kRuns = 2, kWatched = 3;

  std::atomic<std::uint64_t> count_{kReference};
  std::atomic<Continuation*> continuations_{nullptr};  // the last one first
  std::atomic<std::uint32_t> word_{kNobody};
  std::atomic<std::uint32_t> decoding_{kDone};
  std::atomic<bool> claimed_{false};
  std::atomic<bool> cancelled_{false};
  CancelSlot hook_;
};

inline void ReleaseState::operator()(FutureState* state) const noexcept {
  state->release(FutureState::kReference);
}

/// The same with its value.
template <class T>
class StateOf : public FutureState {
 public:
  static_assert(!std::is_reference_v<T>, "a future holds a value, not a reference");
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  /// Ends with a value; false if it has ended.
  template <class... Arguments>
  bool set(Arguments&&... arguments) {
    if (!claim())
      return false;
    try {
      value_.emplace(std::forward<Arguments>(arguments)...);
    } catch (...) {
      error_ = std::current_exception();
    }
    publish();
    return true;
  }
  /// Ends with what `decode` returns or throws when somebody looks.
  bool set_later(SmallFunction<T()> decode) {
    if (!claim())
      return false;
    decode_ = std::move(decode);
    decode_later();
    publish();
    return true;
  }

  /// The value, or its error; it must be ready.
  Value& value() {
    if (const std::exception_ptr& error = this->error())
      std::rethrow_exception(error);
    return *value_;
  }

 private:
  void decode() noexcept override {
    try {
      // Its own: the bytes are of no use afterwards.
      auto decode = std::move(decode_);
      if constexpr (std::is_void_v<T>) {
        decode();
        value_.emplace();
      } else {
        value_.emplace(decode());
      }
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  std::optional<Value> value_;
  SmallFunction<T()> decode_;
};

}  // namespace trireme::rpc
