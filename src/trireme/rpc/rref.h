// References to values of other workers, with their types.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "trireme/rpc/caller.h"

namespace trireme::rpc {

/// A value that lives on one worker, its owner, and may be used from all. It can be
/// copied, sent in calls and kept by any number of workers; the value goes when the
/// last of all these is gone, and after the lease of a worker that has died.
///
///     RRef<Net> net = agent.to("server").remote(make_net, 784, 10);
///     at::Tensor y = net.call(&Net::forward, x);       // a method, where the net is
///     RRef<at::Tensor> w = net.remote(&Net::weight);   // its result stays there too
///     at::Tensor here = w.to_here();
///
/// A reference whose owner has died throws PeerError wherever it is used.
template <class T>
class RRef {
 public:
  using Type = T;

  /// Refers to nothing.
  RRef() = default;
  explicit RRef(Reference reference) : reference_(std::move(reference)) {}
  RRef(Reference reference, Future<void> made)
      : reference_(std::move(reference)), made_(std::move(made)) {}

  explicit operator bool() const { return static_cast<bool>(reference_); }
  const Reference& reference() const { return reference_; }

  /// Whose value it is.
  const WorkerInfo& owner() const {
    return core_of(reference_)->worker(reference_->owner());
  }
  const std::string& owner_name() const { return owner().name; }
  bool is_owner() const { return reference_ && reference_->cargo() != nullptr; }
  /// Whether the value cannot be reached any more, since its owner is gone.
  bool lost() const { return reference_ && reference_->loss().happened(); }

  /// Ready when the value has been made, or with why it was not; on the worker that has
  /// asked for it. On all others it is ready at once.
  Future<void> made() const { return made_.valid() ? made_ : ready_future(); }

  /// The value itself, on its owner; waits until it is made. It lives as long as it is
  /// held.
  std::shared_ptr<T> local_value(
      const Deadline& deadline =
          nested_deadline(Deadline::after(std::chrono::seconds(60)))) const {
    return value_as<T>(place_of(reference_)->future().get(deadline));
  }

  /// A copy of the value.
  T to_here(CallOptions options = {}) const {
    if (is_owner())
      return copy_as<T>(place_of(reference_)
                            ->future()
                            .get(Deadline::after(options.timeout.value_or(
                                core_of(reference_)->options().timeout))));
    return fetch(options, true).get();
  }
  Future<T> to_here_async(CallOptions options = {}) const {
    if (is_owner())
      return place_of(reference_)->future().then([](const KeptValue& kept) {
        return copy_as<T>(kept);
      });
    return fetch(options, false);
  }

  /// Calls a method where the value is. Both sides need it in their FunctionTable.
  template <class Member, class... Given>
  auto call(Member member, Given&&... given) const {
    return with({}).call(member, std::forward<Given>(given)...);
  }
  template <class Member, class... Given>
  auto async(Member member, Given&&... given) const {
    return with({}).async(member, std::forward<Given>(given)...);
  }
  template <class Member, class... Given>
  auto remote(Member member, Given&&... given) const {
    return with({}).remote(member, std::forward<Given>(given)...);
  }

  /// A caller of functions of its owner.
  Caller to_owner(CallOptions options = {}) const {
    auto core = core_of(reference_);  // before the reference is looked into
    return Caller(std::move(core), reference_->owner(), options);
  }

  /// The same with other options: `net.with({.timeout = 5s}).call(&Net::forward, x)`.
  class Methods;
  Methods with(CallOptions options) const { return Methods(*this, to_owner(options)); }

 private:
  Future<T> fetch(CallOptions options, bool hurry) const {
    static_assert(
        Travels<T>,
        "a value that does not travel stays where it is: call its methods there");
    static const Signature signature{.text = "(ref) -> " + kept_name<T>(), .hash = 0};
    const Caller there = to_owner(options);
    ValueWriter writer;
    write_arguments<Reference, std::string>(writer, reference_, kept_name<T>());
    CallPlan plan{
        .to = reference_->owner(),
        .function = kFetchName,
        .signature = &signature,
        .arguments = writer.take(),
        .options = there.options(true),
        .creates = {},
        .haste = hurry ? Haste::Now : options.haste};
    return there.start<TypedEnd<T>>(std::move(plan));
  }

  Reference reference_;
  Future<void> made_;
};

/// Calls methods of a value.
template <class T>
class RRef<T>::Methods {
 public:
  Methods(RRef<T> rref, Caller caller)
      : rref_(std::move(rref)), caller_(std::move(caller)) {}

  template <class R, class... Args, class... Given>
  ResultOf<R> call(R (T::*member)(Args...), Given&&... given) const {
    return caller_.call(
        declared<R, Args...>(member), rref_, std::forward<Given>(given)...);
  }
  template <class R, class... Args, class... Given>
  ResultOf<R> call(R (T::*member)(Args...) const, Given&&... given) const {
    return caller_.call(
        declared<R, Args...>(member), rref_, std::forward<Given>(given)...);
  }
  template <class R, class... Args, class... Given>
  auto async(R (T::*member)(Args...), Given&&... given) const {
    return caller_.async(
        declared<R, Args...>(member), rref_, std::forward<Given>(given)...);
  }
  template <class R, class... Args, class... Given>
  auto async(R (T::*member)(Args...) const, Given&&... given) const {
    return caller_.async(
        declared<R, Args...>(member), rref_, std::forward<Given>(given)...);
  }
  template <class R, class... Args, class... Given>
  auto remote(R (T::*member)(Args...), Given&&... given) const {
    return caller_.remote(
        declared<R, Args...>(member), rref_, std::forward<Given>(given)...);
  }
  template <class R, class... Args, class... Given>
  auto remote(R (T::*member)(Args...) const, Given&&... given) const {
    return caller_.remote(
        declared<R, Args...>(member), rref_, std::forward<Given>(given)...);
  }

 private:
  template <class R, class... Args, class Member>
  Function<R(RRef<T>, Args...)> declared(Member member) const {
    return {.name = caller_.core()->options().functions.name_of(member)};
  }

  RRef<T> rref_;
  Caller caller_;
};

/// An RRef in calls: both sides must mean the same type.
template <class T>
struct WireType<RRef<T>> {
  static void write(ValueWriter& writer, const RRef<T>& value) {
    WireType<Reference>::write(writer, value.reference());
  }
  static RRef<T> read(ValueReader& reader) {
    return RRef<T>(WireType<Reference>::read(reader));
  }
  static std::string name() { return "ref<" + kept_name<T>() + ">"; }
};

/// For who looks for the tensors in a value, as data parallelism does in what a forward
/// returns: `f` sees those of a value of this worker, of which the reference is a new
/// one then; others may have had the value already. For one of another worker
/// `f.elsewhere()` is called, if there is that.
template <class T, class F>
void visit_tensors(RRef<T>& reference, F&& f) {
  if (!reference)
    return;
  if (!reference.is_owner()) {
    if constexpr (requires { f.elsewhere(); })
      f.elsewhere();
    return;
  }
  auto value = std::make_shared<T>(*reference.local_value());
  if constexpr (std::is_same_v<T, at::Tensor>)
    f(*value);
  else
    visit_tensors(*value, f);
  reference =
      RRef<T>(core_of(reference.reference())
                  ->keep({.value = std::move(value), .type = &value_type<T>()}));
}

template <class R, class... Args, class... Given>
RRef<KeptOf<R>> Caller::remote(
    const Function<R(Args...)>& function, Given&&... given) const {
  CallPlan made = plan(false, function, given...);
  const bool own = to_ == core_->me().id;
  made.creates = own ? core_->engine().own(std::make_shared<ValuePlace>())
                     : core_->engine().name(to_);
  Reference reference = made.creates;
  return {std::move(reference), start<MadeEnd>(std::move(made))};
}

}  // namespace trireme::rpc
