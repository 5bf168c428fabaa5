// Values that are not there yet.
#pragma once
#include <chrono>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/rpc/executor.h"
#include "trireme/rpc/future_state.h"

namespace trireme::rpc {

template <class T>
class Promise;

namespace future_detail {
// Whether values are copied where several hold them. A vector says that it can be
// copied even if what is in it cannot.
template <class T>
struct Copies : std::is_copy_constructible<T> {};
template <class T>
struct Copies<std::vector<T>> : Copies<T> {};
}  // namespace future_detail

/// What a call will return, or its error. Cheap to copy: copies are handles of the same
/// value. All of it is safe for threads as long as each has its own handle.
///
///     Future<at::Tensor> sum = agent.async(worker, "add", a, b);
///     Future<float> norm = sum.then([](const at::Tensor& t) { return t.norm(); });
///     float f = norm.get(Deadline::after(1s));
template <class T>
class Future {
 public:
  using Type = T;

  /// Belongs to nothing: all but valid() and assignment throw InvalidArgument.
  Future() = default;
  Future(const Future& other) : state_(other.state_) { retain(); }
  Future(Future&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Future& operator=(Future other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Future() {
    if (state_)
      state_->release(FutureState::kHolder);
  }

  bool valid() const { return state_ != nullptr; }
  /// Whether it has ended, with a value or an error.
  bool ready() const { return state().ready(); }
  /// Waits until it is ready; false if the deadline comes first.
  bool wait(const Deadline& deadline) const { return state().wait(&deadline); }
  bool wait_for(std::chrono::milliseconds time) const {
    return wait(Deadline::after(time));
  }

  /// Waits for the value, or throws its error. There is no limit here: whoever makes
  /// the value has one.
  decltype(auto) get() const& {
    state().wait(nullptr);
    return see();
  }
  /// The last handle gives the value away; else it is copied.
  T get() && {
    state().wait(nullptr);
    return take();
  }
  /// The same within a limit: TimeoutError.
  decltype(auto) get(const Deadline& deadline) const& {
    expect_ready(deadline);
    return see();
  }
  T get(const Deadline& deadline) && {
    expect_ready(deadline);
    return take();
  }

  /// Waits for its end; the error, null if there is a value.
  std::exception_ptr error() const {
    state().wait(nullptr);
    return state().error();
  }
  bool failed() const { return error() != nullptr; }

  /// Goes on with the value: what `function` returns is the new future's; a future that
  /// it returns is waited for. An error goes past it. It runs on the thread that makes
  /// the value, at once if that is there, or on the executor, if one is given and has
  /// room; this_call() is there as it was here. Where it runs on a thread of the
  /// network it must not take long.
  template <class Function>
  auto then(Function function, Executor* executor = nullptr) const&;
  template <class Function>
  auto then(Function function, Executor* executor = nullptr) &&;
  /// Goes on with the finished future, whatever its end.
  template <class Function>
  auto handle(Function function, Executor* executor = nullptr) const&;
  template <class Function>
  auto handle(Function function, Executor* executor = nullptr) &&;

  /// Nobody needs the value: ends it with Cancelled, and tells who makes it. Where it
  /// was made by then(), what it was to be made of is cancelled too, unless somebody
  /// else holds that. False if it has ended.
  bool cancel(const std::string& why = "nobody waits for it") const {
    return state().cancel(why);
  }

  /// For what is built upon futures.
  StateOf<T>& state() const {
    if (!state_)
      throw InvalidArgument(
          "[rpc] expected a future of something, got an empty one; assign it what a "
          "call returns first");
    return *state_;
  }
  /// A handle of a state.
  explicit Future(StateOf<T>& state) : state_(&state) { retain(); }
  /// The value, given away if this is the last handle; it must be ready.
  T take() const;

 private:
  void retain() const {
    if (state_)
      state_->retain(FutureState::kHolder);
  }
  void expect_ready(const Deadline& deadline) const {
    if (!wait(deadline))
      throw TimeoutError(text(
          "[rpc] expected a result within ",
          deadline.allowed().count(),
          " ms, got none; wait for longer, or look at who makes it"));
  }
  decltype(auto) see() const {
    if constexpr (std::is_void_v<T>)
      static_cast<void>(state_->value());
    else
      return std::as_const(state_->value());
  }

  StateOf<T>* state_ = nullptr;
};

/// Where a value comes from. One that goes without having given its value, gives an
/// error. For one thread at a time.
template <class T>
class Promise {
 public:
  Promise() : state_(new StateOf<T>) {}
  Promise(Promise&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)),
        kept_(std::exchange(other.kept_, true)) {}
  Promise& operator=(Promise&& other) noexcept {
    Promise(std::move(other)).swap(*this);
    return *this;
  }
  ~Promise() {
    if (!state_)
      return;
    if (!kept_)
      state_->fail(
          std::make_exception_ptr(Error("[rpc] expected a promise to be kept, got its "
                                        "end without a value; set a value "
                                        "or an error before it is destroyed")));
    state_->release(FutureState::kReference);
  }

  Future<T> future() const { return Future<T>(state()); }

  /// Gives the value, and runs what waits for it. False if it was cancelled before;
  /// InvalidArgument the second time.
  template <class... Arguments>
  bool set_value(Arguments&&... arguments) {
    keep();
    return state_->set(std::forward<Arguments>(arguments)...);
  }
  bool set_exception(std::exception_ptr error) {
    keep();
    return state_->fail(std::move(error));
  }
  /// Gives what `decode` will return or throw: it runs once, on the first thread that
  /// looks at the value.
  bool set_later(SmallFunction<T()> decode) {
    keep();
    return state_->set_later(std::move(decode));
  }

  /// Calls `hook` with the reason if it is cancelled before the value is there, on the
  /// thread that cancels; at once if it was cancelled already. What it throws is
  /// logged.
  template <class Hook>
  void on_cancel(Hook hook) {
    state().on_cancel([hook = std::move(hook)](const std::string& why) mutable {
      hook(why);
      return StatePointer();
    });
  }
  /// Whether the value is of no use any more.
  bool cancelled() const { return !kept_ && state_->claimed(); }

 private:
  StateOf<T>& state() const {
    if (!state_)
      throw InvalidArgument(
          "[rpc] expected a promise, got one that was moved away; use the other one");
    return *state_;
  }
  void keep() {
    state();
    if (kept_)
      throw InvalidArgument(
          "[rpc] expected a promise that is kept once, got a second value for it; make "
          "another promise");
    kept_ = true;
  }
  void swap(Promise& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(kept_, other.kept_);
  }

  StateOf<T>* state_;
  bool kept_ = false;
};

/// A future that has its value already.
template <class T>
Future<std::decay_t<T>> ready_future(T&& value) {
  Promise<std::decay_t<T>> promise;
  promise.set_value(std::forward<T>(value));
  return promise.future();
}
inline Future<void> ready_future() {
  Promise<void> promise;
  promise.set_value();
  return promise.future();
}
/// One that has failed already.
template <class T>
Future<T> failed_future(std::exception_ptr error) {
  Promise<T> promise;
  promise.set_exception(std::move(error));
  return promise.future();
}

template <class T>
T Future<T>::take() const {
  auto& value = state().value();
  if constexpr (!std::is_void_v<T>) {
    if (state_->holders() == 1)
      return std::move(value);
    if constexpr (future_detail::Copies<T>::value)
      return value;
    else
      throw InvalidArgument(text(
          "[rpc] expected one handle of a future whose value cannot be copied, got ",
          state_->holders(),
          "; let the others go first, or look at it by get() without a move"));
  }
}

}  // namespace trireme::rpc

#include "trireme/rpc/future_then.h"
