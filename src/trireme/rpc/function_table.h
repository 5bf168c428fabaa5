// The functions that a worker serves, by name.
#pragma once
#include <any>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "trireme/rpc/function_body.h"

namespace trireme::rpc {

/// A function's name with its type, for callers, who are then checked by the compiler:
///
///     inline const rpc::Function<at::Tensor(at::Tensor, at::Tensor)> add{"add"};
///     at::Tensor sum = agent.to("server").call(add, a, b);
template <class Type>
struct Function {
  std::string name;
  /// It may run twice: where a call may have been lost, it is sent again.
  bool idempotent = false;
};

/// The type of a callable: at::Tensor(int) of a lambda, a function or std::function.
template <class F>
struct CallableType {
  template <class Type>
  static Type* type_of(const std::function<Type>&);
  using type =
      std::remove_pointer_t<decltype(type_of(std::function{std::declval<F>()}))>;
};

/// The functions that other workers may call. Names are letters, digits and "_.:-".
///
///     rpc::FunctionTable functions;
///     functions.add("add", [](at::Tensor a, at::Tensor b) { return a + b; });
///     functions.add("stop", [&] { stop = true; }, {.roles = {"trainer"}});
///     functions.method("Net.forward", &Net::forward);
class FunctionTable {
 public:
  /// A function whose arguments and result travel. It may return a Future: then its
  /// thread is free until the value is there. A result that does not travel can be
  /// made by remote() alone.
  template <class F>
  FunctionTable& add(std::string name, F function, FunctionOptions options = {}) {
    using Type = typename CallableType<F>::type;
    return insert(
        {.name = std::move(name),
         .signature = signature_of<Type>(),
         .options = std::move(options),
         .run = FunctionBody<Type>::of(std::move(function))});
  }
  /// The same for one that callers know by its type: a callable of another type is no
  /// C++.
  template <class Type, class F>
  FunctionTable& add(
      const Function<Type>& declared, F function, FunctionOptions options = {}) {
    return insert(
        {.name = declared.name,
         .signature = signature_of<Type>(),
         .options = std::move(options),
         .run = FunctionBody<Type>::of(std::function<Type>(std::move(function)))});
  }

  /// A method, for `rref.call(&Net::forward, x)`. Callers need it in their table as
  /// well, since that is where a method has its name.
  template <class T, class R, class... Args>
  FunctionTable& method(
      std::string name, R (T::*member)(Args...), FunctionOptions options = {}) {
    return add_method<T, R, Args...>(std::move(name), member, std::move(options));
  }
  template <class T, class R, class... Args>
  FunctionTable& method(
      std::string name, R (T::*member)(Args...) const, FunctionOptions options = {}) {
    return add_method<T, R, Args...>(std::move(name), member, std::move(options));
  }

  /// The function of that name; null if there is none.
  const ServedFunction* find(const std::string& name) const;
  /// The name of a method; InvalidArgument if it is in no table.
  template <class Member>
  const std::string& name_of(Member member) const {
    const auto found = methods_.find(typeid(Member));
    if (found != methods_.end())
      for (const auto& [other, name] : found->second)
        if (std::any_cast<Member>(other) == member)
          return name;
    refuse_method(typeid(Member));
  }
  /// Names like this one, for errors: ", did you mean add?".
  std::string hint(const std::string& name) const;

 private:
  template <class T, class R, class... Args, class Member>
  FunctionTable& add_method(std::string name, Member member, FunctionOptions options) {
    insert(
        {.name = name,
         .signature = signature_of<R(RefTo<T>, Args...)>(),
         .options = std::move(options),
         .run = MethodBody<T, R, Args...>::of(member)});
    methods_[typeid(Member)].emplace_back(member, std::move(name));
    return *this;
  }
  FunctionTable& insert(ServedFunction function);
  [[noreturn]] static void refuse_method(const std::type_info& type);

  // Shared: an agent keeps the table, and its user may have others with the same.
  std::map<std::string, std::shared_ptr<const ServedFunction>> functions_;
  std::map<std::type_index, std::vector<std::pair<std::any, std::string>>> methods_;
};

}  // namespace trireme::rpc
