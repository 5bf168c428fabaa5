// What a function takes and gives, in words, so that both sides can compare.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

#include "trireme/rpc/wire_containers.h"
#include "trireme/rpc/wire_numbers.h"
#include "trireme/rpc/wire_struct.h"
#include "trireme/rpc/wire_type.h"

namespace trireme::rpc {

/// "(int, tensor) -> tensor", and a number that follows from it alone.
struct Signature {
  std::string text;
  std::uint64_t hash = 0;
  bool operator==(const Signature&) const = default;
};

/// The number of a text; the same in every build.
std::uint64_t signature_hash(std::string_view text);

/// What of a function's result travels: of void, nothing. Specialise it for results
/// that stand for others: a future for its value.
template <class Result>
struct WireResult {
  using type = Result;
};
template <>
struct WireResult<void> {
  using type = std::monostate;
};
template <class Result>
using WireResultOf = typename WireResult<std::remove_cvref_t<Result>>::type;

/// The parts of a function's type.
template <class Function>
struct FunctionType;
template <class Result, class... Args>
struct FunctionType<Result(Args...)> {
  static_assert(
      ((!std::is_lvalue_reference_v<Args> ||
        std::is_const_v<std::remove_reference_t<Args>>)&&...),
      "an argument is taken by a reference that is not const, but nothing travels back "
      "through it: take it by value, and return what has changed");
  static std::string text() {
    std::string names;
    if constexpr (sizeof...(Args) > 0)
      names = type_names<std::remove_cvref_t<Args>...>();
    return "(" + names + ") -> " + type_name<WireResultOf<Result>>();
  }
};

/// The signature of a function's type, made once:
///
///     signature_of<at::Tensor(int, const at::Tensor&)>().text;
///     // "(int, tensor) -> tensor"
template <class Function>
const Signature& signature_of() {
  static const Signature signature = [] {
    std::string text = FunctionType<Function>::text();
    const std::uint64_t hash = signature_hash(text);
    return Signature{std::move(text), hash};
  }();
  return signature;
}

/// Writes arguments one after the other, each as the type that the function takes:
/// `write_arguments<double, std::string>(writer, 1, "one")`.
template <class... Args>
void write_arguments(ValueWriter& writer, const Args&... args) {
  (write_value(writer, args), ...);
}

/// Reads them all, from left to right; InvalidArgument for what is too little or too
/// much.
template <class... Args>
std::tuple<std::remove_cvref_t<Args>...> read_arguments(ValueReader& reader) {
  std::tuple<std::remove_cvref_t<Args>...> arguments{
      read_value<std::remove_cvref_t<Args>>(reader)...};
  reader.expect_end();
  return arguments;
}

}  // namespace trireme::rpc
