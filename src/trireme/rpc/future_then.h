// Future::then() and handle(); part of future.h.
#pragma once
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "trireme/rpc/call_context.h"
#include "trireme/rpc/future.h"

namespace trireme::rpc {
namespace future_detail {

template <class T>
struct Unwrapped {
  using Type = T;
  static constexpr bool kFuture = false;
};
template <class T>
struct Unwrapped<Future<T>> {
  using Type = T;
  static constexpr bool kFuture = true;
};

// How then() calls a function: with the value, moved if nobody else has it.
struct CallWithValue {
  template <class T, class Function>
  static decltype(auto) call(Function& function, const Future<T>& source) {
    if constexpr (std::is_void_v<T>) {
      source.state().value();
      return function();
    } else if constexpr (std::is_invocable_v<Function&, const T&>) {
      using Result = std::invoke_result_t<Function&, T>;
      auto& value = source.state().value();
      if (source.state().holders() == 1)
        return static_cast<Result>(function(std::move(value)));
      return static_cast<Result>(function(std::as_const(value)));
    } else {
      return function(source.take());
    }
  }
};
// How handle() does.
struct CallWithFuture {
  template <class T, class Function>
  static decltype(auto) call(Function& function, Future<T>& source) {
    return function(std::move(source));
  }
};

// A task that ends the state even if it never runs.
template <class State>
class Errand {
 public:
  explicit Errand(State* state) : state_(state) {}
  Errand(Errand&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Errand& operator=(Errand&&) = delete;
  ~Errand() {
    if (state_)
      state_->dropped();
  }
  void operator()() { std::exchange(state_, nullptr)->work(); }

 private:
  State* state_;
};

// The end of a then(): the continuation of one future and the state of the next, in one
// piece of memory.
template <class T, class Call, class Function>
struct ThenTypes {
  using Returned = std::decay_t<decltype(Call::call(
      std::declval<Function&>(), std::declval<Future<T>&>()))>;
  using Result = typename Unwrapped<Returned>::Type;
};

template <class T, class Call, class Function>
class ThenState final : public StateOf<typename ThenTypes<T, Call, Function>::Result>,
                        public Continuation {
 public:
  using Returned = typename ThenTypes<T, Call, Function>::Returned;
  using Result = typename ThenTypes<T, Call, Function>::Result;

  ThenState(Future<T> source, Function function, Executor* executor)
      : source_(std::move(source)),
        function_(std::move(function)),
        executor_(executor),
        call_(share_this_call()) {}

  Future<Result> start() {
    Future<Result> result(*this);
    cancel_with(source_.state());
    source_.state().add(*this);  // may end it, and its reference with it
    return result;
  }

  // Runs twice where the function returns a future: the second time that one is ready.
  void run() noexcept override {
    if (inner_.valid())
      return pass_on();
    if (executor_) {
      Task task{Errand<ThenState>(this)};
      if (executor_->try_run(std::move(task)))
        return;
      task();
      return;
    }
    work();
  }

  void work() noexcept {
    if (this->claimed()) {
      forget();
      return this->release(FutureState::kReference);
    }
    try {
      call();
    } catch (...) {
      forget();
      this->fail(std::current_exception());
    }
    if (inner_.valid())
      return follow();
    this->release(FutureState::kReference);
  }

  void dropped() noexcept {
    forget();
    this->fail(
        std::make_exception_ptr(Error("[rpc] expected an executor that runs its tasks, "
                                      "got one that ended first; stop "
                                      "it after those who use it")));
    this->release(FutureState::kReference);
  }

 private:
  // What was held for the function goes before anybody goes on with its result.
  void call() {
    const CallScope scope(std::move(call_));
    if constexpr (Unwrapped<Returned>::kFuture) {
      Future<Result> inner = Call::call(*function_, source_);
      inner.state();  // refuses an empty one
      forget();
      inner_ = std::move(inner);
    } else if constexpr (std::is_void_v<Returned>) {
      Call::call(*function_, source_);
      forget();
      this->set();
    } else {
      Returned result = Call::call(*function_, source_);
      forget();
      this->set(std::move(result));
    }
  }
  // Cancelling this cancels what it is made of, if nobody else holds that.
  void cancel_with(FutureState& origin) {
    origin.retain(FutureState::kReference);
    this->on_cancel([origin = StatePointer(&origin)](const std::string&) mutable {
      return origin->holders() <= 1 ? std::move(origin) : nullptr;
    });
  }
  void follow() {
    if constexpr (Unwrapped<Returned>::kFuture) {
      cancel_with(inner_.state());
      inner_.state().add(*this);
    }
  }
  void pass_on() noexcept {
    if constexpr (Unwrapped<Returned>::kFuture) {
      const Future<Result> inner = std::move(inner_);
      if (const std::exception_ptr& error = inner.state().error())
        this->fail(error);
      else
        move_from(inner);
      this->release(FutureState::kReference);
    }
  }
  void move_from(const Future<Result>& inner) noexcept {
    try {
      if constexpr (std::is_void_v<Result>)
        this->set();
      else
        this->set(inner.take());
    } catch (...) {
      this->fail(std::current_exception());
    }
  }
  void forget() noexcept {
    function_.reset();
    source_ = {};
    call_.reset();
  }

  struct Nothing {
    bool valid() const { return false; }
  };

  Future<T> source_;
  std::optional<Function> function_;
  Executor* executor_;
  CallPointer call_;
  std::conditional_t<Unwrapped<Returned>::kFuture, Future<Result>, Nothing> inner_;
};

template <class Call, class T, class Function>
auto chain(Future<T> source, Function function, Executor* executor) {
  source.state();  // refuses an empty one
  return (new ThenState<T, Call, Function>(
              std::move(source), std::move(function), executor))
      ->start();
}

}  // namespace future_detail

template <class T>
template <class Function>
auto Future<T>::then(Function function, Executor* executor) const& {
  return future_detail::chain<future_detail::CallWithValue>(
      *this, std::move(function), executor);
}
template <class T>
template <class Function>
auto Future<T>::then(Function function, Executor* executor) && {
  return future_detail::chain<future_detail::CallWithValue>(
      std::move(*this), std::move(function), executor);
}

template <class T>
template <class Function>
auto Future<T>::handle(Function function, Executor* executor) const& {
  return future_detail::chain<future_detail::CallWithFuture>(
      *this, std::move(function), executor);
}
template <class T>
template <class Function>
auto Future<T>::handle(Function function, Executor* executor) && {
  return future_detail::chain<future_detail::CallWithFuture>(
      std::move(*this), std::move(function), executor);
}

}  // namespace trireme::rpc
