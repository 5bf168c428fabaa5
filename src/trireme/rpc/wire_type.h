// How values of C++ types travel: the trait, and the types that hold no others.
#pragma once
#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ratio>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "trireme/rpc/values.h"

namespace trireme::rpc {

/// How a T travels. To teach it a class of your own, write rpc::Fields (wire_struct.h);
/// only what is no plain struct needs a specialisation of this:
///
///     template <>
///     struct rpc::WireType<Colour> {
///       static void write(ValueWriter& writer, const Colour& colour);
///       static Colour read(ValueReader& reader);   // InvalidArgument for what is none
///       static std::string name() { return "Colour"; }   // in signatures
///     };
///
/// Each value must take a byte, a tensor or a reference at least.
template <class T>
struct WireType;

/// Whether a type has a wire form. Of a container it says nothing about the elements.
template <class T>
concept Travels = requires {
  sizeof(WireType<T>);
};

/// Says in words why a type cannot be compiled.
template <class T>
consteval void expect_wire_form() {
  static_assert(
      Travels<T>,
      "this type has no wire form: specialise trireme::rpc::Fields for a struct of "
      "your "
      "own, take std::string instead of a char pointer or a string_view, or keep the "
      "value where it is and send an RRef");
}

/// Writes a value in its wire form.
template <class T>
void write_value(ValueWriter& writer, const T& value) {
  expect_wire_form<T>();
  if constexpr (Travels<T>)
    WireType<T>::write(writer, value);
}

/// Reads what write_value() wrote; InvalidArgument for what is no T.
template <class T>
T read_value(ValueReader& reader) {
  expect_wire_form<T>();
  return WireType<T>::read(reader);
}

/// A type's name in signatures: "list<int>".
template <class T>
std::string type_name() {
  expect_wire_form<T>();
  if constexpr (Travels<T>)
    return WireType<T>::name();
}

/// InvalidArgument: `got` is no whole number that the other side has a place for.
[[noreturn]] void refuse_number(
    const std::string& expected, const std::string& got, const char* what);

/// `number` as a T, or InvalidArgument. (std::in_range takes no char.)
template <std::integral T, std::integral Number>
T checked_number(Number number, const char* what) {
  const T result = static_cast<T>(number);
  const bool same_sign = (result < T{}) == (number < Number{});
  if (static_cast<Number>(result) != number || !same_sign) [[unlikely]]
    refuse_number(
        "an int from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
            std::to_string(std::numeric_limits<T>::max()),
        std::to_string(number),
        what);
  return result;
}

/// A whole number of any width; 64 bits with a sign on the way.
template <class T>
concept WholeNumber = std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8 &&
                      !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                      !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

template <WholeNumber T>
struct WireType<T> {
  static void write(ValueWriter& writer, T value) {
    writer.bytes().i64(checked_number<std::int64_t>(value, "a value to send"));
  }
  static T read(ValueReader& reader) {
    return checked_number<T>(reader.bytes().i64(), reader.what());
  }
  static std::string name() { return "int"; }
};

template <>
struct WireType<bool> {
  static void write(ValueWriter& writer, bool value) { writer.bytes().flag(value); }
  static bool read(ValueReader& reader) { return reader.bytes().flag(); }
  static std::string name() { return "bool"; }
};

/// A double with all its bits; a float on either side is widened or rounded.
template <class T>
requires std::same_as<T, float> || std::same_as<T, double>
struct WireType<T> {
  static void write(ValueWriter& writer, T value) {
    writer.bytes().u64(std::bit_cast<std::uint64_t>(static_cast<double>(value)));
  }
  static T read(ValueReader& reader) {
    return static_cast<T>(std::bit_cast<double>(reader.bytes().u64()));
  }
  static std::string name() { return "float"; }
};

/// An enumeration whose values all have a meaning in C++: `enum class`, or with a type.
template <class T>
concept WireEnum = std::is_enum_v<T> && requires {
  T{std::underlying_type_t<T>{}};
};

template <WireEnum T>
struct WireType<T> {
  using Number = std::underlying_type_t<T>;
  static void write(ValueWriter& writer, T value) {
    writer.bytes().i64(
        checked_number<std::int64_t>(static_cast<Number>(value), "a value to send"));
  }
  /// Any number of the underlying type: whether it is an enumerator is for the function
  /// to say.
  static T read(ValueReader& reader) {
    return static_cast<T>(checked_number<Number>(reader.bytes().i64(), reader.what()));
  }
  static std::string name() { return "int"; }
};

template <>
struct WireType<std::string> {
  static void write(ValueWriter& writer, const std::string& value) {
    writer.string(value);
  }
  static std::string read(ValueReader& reader) { return std::string(reader.string()); }
  static std::string name() { return "string"; }
};

template <>
struct WireType<at::Tensor> {
  static void write(ValueWriter& writer, const at::Tensor& value) {
    writer.tensor(value);
  }
  static at::Tensor read(ValueReader& reader) { return reader.tensor(); }
  static std::string name() { return "tensor"; }
};

/// A reference without its type; it may be empty.
template <>
struct WireType<Reference> {
  static void write(ValueWriter& writer, const Reference& value) {
    writer.bytes().flag(static_cast<bool>(value));
    if (value)
      writer.reference(value);
  }
  static Reference read(ValueReader& reader) {
    return reader.bytes().flag() ? reader.reference() : Reference();
  }
  static std::string name() { return "ref"; }
};

/// Nothing: the result of a function that returns void.
template <>
struct WireType<std::monostate> {
  static void write(ValueWriter& writer, std::monostate) { writer.bytes().u8(0); }
  static std::monostate read(ValueReader& reader) {
    if (const int got = reader.bytes().u8(); got != 0)
      refuse_number("0 for nothing", std::to_string(got), reader.what());
    return {};
  }
  static std::string name() { return "nothing"; }
};

/// A duration in whole ticks of a nanosecond or longer; nanoseconds on the way.
template <WholeNumber Count, class Period>
requires(
    std::ratio_divide<Period, std::nano>::den ==
    1) struct WireType<std::chrono::duration<Count, Period>> {
  using Duration = std::chrono::duration<Count, Period>;
  static constexpr std::int64_t kTick = std::ratio_divide<Period, std::nano>::num;
  static void write(ValueWriter& writer, Duration value) {
    std::int64_t nanoseconds = 0;
    if (__builtin_mul_overflow(value.count(), kTick, &nanoseconds))
      refuse_number(
          "a duration below 292 years",
          std::to_string(value.count()) + " ticks",
          "a value to send");
    writer.bytes().i64(nanoseconds);
  }
  static Duration read(ValueReader& reader) {
    const std::int64_t nanoseconds = reader.bytes().i64();
    if (nanoseconds % kTick != 0)
      refuse_number(
          "a duration in multiples of " + std::to_string(kTick) + " ns",
          std::to_string(nanoseconds) + " ns",
          reader.what());
    return Duration(checked_number<Count>(nanoseconds / kTick, reader.what()));
  }
  static std::string name() { return "duration"; }
};

}  // namespace trireme::rpc
