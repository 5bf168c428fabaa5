// Calling functions of one worker.
#pragma once
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "trireme/rpc/agent_core.h"
#include "trireme/rpc/function_body.h"
#include "trireme/rpc/function_table.h"

namespace trireme::rpc {

template <class T>
class RRef;

/// What a function's caller gets: the value of a future that it returns, else its
/// result.
template <class R>
using ResultOf = std::conditional_t<
    std::is_same_v<WireResultOf<R>, std::monostate>,
    void,
    WireResultOf<R>>;

/// The type as which an argument travels that was given for no declared one: text as a
/// std::string.
template <class Given>
using ArgumentOf = std::conditional_t<
    std::is_convertible_v<Given, std::string> &&
        !std::is_same_v<std::decay_t<Given>, std::string>,
    std::string,
    std::decay_t<Given>>;

/// The end of a call whose result is a T.
template <class T>
class TypedEnd final : public CallEnd {
 public:
  Future<T> future() const { return promise_.future(); }

 private:
  void take(Payload payload, const ValueLimits& limits) override {
    // Whoever looks at the value decodes it, not the thread that brings it.
    promise_.set_later(
        [payload = std::move(payload),
         limits,
         escort = std::move(escort_)]() mutable -> T {
          Values values = unpack_values(std::move(payload), limits);
          if (escort)
            escort->pass(values.tensors);
          ValueReader reader(values, "the result of a call");
          if constexpr (std::is_void_v<T>) {
            read_value<std::monostate>(reader);
            reader.expect_end();
          } else {
            T value = read_value<T>(reader);
            reader.expect_end();
            return value;
          }
        });
  }
  void fail(std::exception_ptr error) override {
    promise_.set_exception(std::move(error));
  }

  Promise<T> promise_;
};

/// The end of a call whose result stays where it is made.
class MadeEnd final : public CallEnd {
 public:
  Future<void> future() const { return promise_.future(); }

 private:
  void take(Payload, const ValueLimits&) override { promise_.set_value(); }
  void fail(std::exception_ptr error) override {
    promise_.set_exception(std::move(error));
  }

  Promise<void> promise_;
};

/// Calls functions of one worker, all with the same options. It is made by Agent::to(),
/// and cheap to copy.
///
///     auto server = agent.to("server", {.timeout = 5s});
///     at::Tensor sum = server.call(add, a, b);
///     Future<int> count = server.async<int>("count");
///     RRef<Net> net = server.remote(make_net, 3, 4);
class Caller {
 public:
  Caller(std::shared_ptr<AgentCore> core, WorkerId to, CallOptions options)
      : core_(std::move(core)), to_(to), options_(options) {}

  const WorkerInfo& worker() const { return core_->worker(to_); }

  /// Calls and waits for the result. Throws what went wrong: RemoteError for what the
  /// function has thrown, InvalidArgument where it was refused, TimeoutError, PeerError
  /// where the worker is gone.
  template <class R, class... Args, class... Given>
  ResultOf<R> call(const Function<R(Args...)>& function, Given&&... given) const {
    return wait(begin<R, Args...>(true, function, std::forward<Given>(given)...));
  }
  template <class R, class... Given>
  ResultOf<R> call(const std::string& name, Given&&... given) const {
    return wait(begin<R, ArgumentOf<Given>...>(
        true, Function<R(ArgumentOf<Given>...)>{name}, std::forward<Given>(given)...));
  }

  /// Calls; the result comes later. Small calls that are made one after the other share
  /// packets. Tensors must not be changed until the result is there.
  template <class R, class... Args, class... Given>
  Future<ResultOf<R>> async(
      const Function<R(Args...)>& function, Given&&... given) const {
    return begin<R, Args...>(false, function, std::forward<Given>(given)...);
  }
  template <class R, class... Given>
  Future<ResultOf<R>> async(const std::string& name, Given&&... given) const {
    return begin<R, ArgumentOf<Given>...>(
        false, Function<R(ArgumentOf<Given>...)>{name}, std::forward<Given>(given)...);
  }

  /// Calls, and leaves the result there; for all uses the reference is as good as the
  /// value will be.
  template <class R, class... Args, class... Given>
  RRef<KeptOf<R>> remote(const Function<R(Args...)>& function, Given&&... given) const;
  template <class R, class... Given>
  RRef<KeptOf<R>> remote(const std::string& name, Given&&... given) const {
    return remote(
        Function<R(ArgumentOf<Given>...)>{name}, std::forward<Given>(given)...);
  }

  /// What is called by number and type, for what is built upon this.
  template <class End>
  auto start(CallPlan plan) const {
    auto end = std::make_unique<End>();
    auto future = end->future();
    const std::uint64_t number = core_->call(std::move(plan), std::move(end));
    future.state().on_cancel(
        [core = std::weak_ptr(core_), number](const std::string&) -> StatePointer {
          if (const auto alive = core.lock())
            alive->engine().cancel(number);
          return nullptr;
        });
    return future;
  }
  CallOptions options(bool idempotent) const {
    CallOptions options = options_;
    options.idempotent = options.idempotent || idempotent;
    return options;
  }
  const std::shared_ptr<AgentCore>& core() const { return core_; }
  WorkerId to() const { return to_; }

 private:
  // Where this thread must not wait, nobody does: the call is of no use.
  template <class T>
  static T wait(Future<T> future) {
    try {
      future.error();
    } catch (...) {
      future.cancel("its caller must not wait");
      throw;
    }
    return std::move(future).get();
  }

  template <class R, class... Args, class... Given>
  CallPlan plan(
      bool hurry, const Function<R(Args...)>& function, const Given&... given) const {
    static_assert(
        sizeof...(Args) == sizeof...(Given),
        "a call needs as many arguments as the function takes");
    ValueWriter writer;
    write_arguments<std::remove_cvref_t<Args>...>(writer, given...);
    return {
        .to = to_,
        .function = function.name,
        .signature = &signature_of<R(std::remove_cvref_t<Args>...)>(),
        .arguments = writer.take(),
        .options = options(function.idempotent),
        .creates = {},
        .haste = hurry ? Haste::Now : options_.haste};
  }
  template <class R, class... Args, class... Given>
  Future<ResultOf<R>> begin(
      bool hurry, const Function<R(Args...)>& function, const Given&... given) const {
    static_assert(
        std::is_void_v<ResultOf<R>> || Travels<WireResultOf<R>>,
        "the result stays where it is made: call the function by remote()");
    return start<TypedEnd<ResultOf<R>>>(plan(hurry, function, given...));
  }

  std::shared_ptr<AgentCore> core_;
  WorkerId to_;
  CallOptions options_;
};

}  // namespace trireme::rpc
