// From a C++ function to one that can be served: reading arguments, writing results.
#pragma once
#include <concepts>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "trireme/rpc/call_context.h"
#include "trireme/rpc/served_function.h"

namespace trireme::rpc {

/// What stays on its worker, as a part of signatures: "object ps::Net".
template <class T>
struct Object {};
template <class T>
struct WireType<Object<T>> {
  static std::string name() { return "object " + kept_name<T>(); }
};

/// A reference to a T, as a part of signatures; it travels as a Reference does.
template <class T>
struct RefTo {};
template <class T>
struct WireType<RefTo<T>> {
  static std::string name() { return "ref<" + kept_name<T>() + ">"; }
};

/// What a function's result is kept as, for references: T for a pointer to T.
template <class R>
struct Kept {
  using type = R;
  static std::shared_ptr<void> make(R value) {
    return std::make_shared<R>(std::move(value));
  }
};
template <class T>
struct Kept<std::shared_ptr<T>> {
  using type = T;
  static std::shared_ptr<void> make(std::shared_ptr<T> value) { return value; }
};
template <class T, class Deleter>
struct Kept<std::unique_ptr<T, Deleter>> {
  using type = T;
  static std::shared_ptr<void> make(std::unique_ptr<T, Deleter> value) {
    return std::shared_ptr<T>(std::move(value));
  }
};
template <class T>
struct Kept<Future<T>> : Kept<T> {};
template <>
struct Kept<void> : Kept<std::monostate> {};
template <class R>
using KeptOf = typename Kept<std::remove_cvref_t<R>>::type;

template <class T>
struct WireResult<Future<T>> : WireResult<T> {};
template <class R>
requires(!Travels<R> && !std::is_void_v<R>) struct WireResult<R> {
  using type = Object<KeptOf<R>>;
};

/// A result in the form that the call wants.
template <class R>
Returned returned(R value, bool keep) {
  Returned result;
  if (keep) {
    result.kept = {
        .value = Kept<R>::make(std::move(value)), .type = &value_type<KeptOf<R>>()};
    if (!result.kept.value)
      throw InvalidArgument(text(
          "[rpc] expected a function to make a ",
          value_type<KeptOf<R>>().name,
          ", got a null pointer; throw where it cannot be made"));
  } else if constexpr (Travels<R>) {
    ValueWriter writer;
    write_value(writer, value);
    result.values = writer.take();
  } else {
    throw InvalidArgument(text(
        "[rpc] expected a call by remote() for a ",
        value_type<KeptOf<R>>().name,
        ", which stays where it is made, got one that wants it sent; call it by "
        "remote()"));
  }
  return result;
}

template <class R>
inline constexpr bool kIsFuture = false;
template <class T>
inline constexpr bool kIsFuture<Future<T>> = true;

/// Calls, and answers with what comes of it. `object` is what the call may need until
/// then.
template <class Call>
void answer_with(
    Call&& call, bool keep, Answer answer, std::shared_ptr<void> object = nullptr) {
  using R = std::remove_cvref_t<std::invoke_result_t<Call&>>;
  if constexpr (kIsFuture<R>) {
    R future = [&]() -> R {
      try {
        R made = call();
        made.state();  // refuses an empty one
        return made;
      } catch (...) {
        return failed_future<typename R::Type>(std::current_exception());
      }
    }();
    std::move(future).handle(
        [answer = std::move(answer), keep, object = std::move(object)](R done) mutable {
          answer_with(
              [&done] { return std::move(done).get(); }, keep, std::move(answer));
        });
  } else {
    Returned result;
    try {
      if constexpr (std::is_void_v<R>) {
        call();
        result = returned(std::monostate{}, keep);
      } else {
        result = returned<R>(call(), keep);
      }
    } catch (...) {
      return answer.fail(std::current_exception());
    }
    answer.give(std::move(result));
  }
}

/// Reads the arguments of a call.
template <class... Args>
std::tuple<std::remove_cvref_t<Args>...> arguments_of(const Values& values) {
  ValueReader reader(values, "the arguments of a call");
  return read_arguments<Args...>(reader);
}

/// A function R(Args...), ready to be served.
template <class Type>
struct FunctionBody;
template <class R, class... Args>
struct FunctionBody<R(Args...)> {
  template <class F>
  static auto of(F function) {
    return [function = std::move(function)](
               const Values& values, bool keep, Answer answer) {
      answer_with(
          [&]() -> R { return std::apply(function, arguments_of<Args...>(values)); },
          keep,
          std::move(answer));
    };
  }
};

/// Types whose objects say themselves who may call their methods: expect_caller()
/// throws for all others.
template <class T>
concept ChoosesCallers = requires(const T& object, const WorkerInfo& caller) {
  object.expect_caller(caller);
};

/// A method of T, called on the value behind its first argument, as soon as that is
/// there.
template <class T, class R, class... Args>
struct MethodBody {
  using All = std::tuple<Reference, std::remove_cvref_t<Args>...>;
  template <class Member>
  static R invoke(Member member, const KeptValue& kept, All& all) {
    const std::shared_ptr<T> object = value_as<T>(kept);
    if constexpr (ChoosesCallers<T>)
      object->expect_caller(*this_call()->caller);
    return std::apply(
        [&](Reference&, auto&... args) -> R {
          return std::invoke(member, *object, std::move(args)...);
        },
        all);
  }
  template <class Member>
  static auto of(Member member) {
    return [member](const Values& values, bool keep, Answer answer) {
      All all;
      std::shared_ptr<ValuePlace> place;
      try {
        all = arguments_of<Reference, Args...>(values);
        place = place_of(std::get<0>(all));
      } catch (...) {
        return answer.fail(std::current_exception());
      }
      // The answer goes last: until then the call counts as running.
      auto run = [answer = std::move(answer), member, keep, all = std::move(all)](
                     Future<KeptValue> made) mutable {
        answer_with(
            [&]() -> R { return invoke(member, made.get(), all); },
            keep,
            std::move(answer),
            made.failed() ? nullptr : made.get().value);
      };
      // Not in a continuation: those of what it calls would wait for its end.
      if (place->future().ready())
        return run(place->future());
      place->future().handle([run = std::move(run)](Future<KeptValue> made) mutable {
        resume_call([run = std::move(run), made = std::move(made)]() mutable {
          run(std::move(made));
        });
      });
    };
  }
};

}  // namespace trireme::rpc
