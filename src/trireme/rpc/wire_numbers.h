// How numbers travel.
#pragma once
#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ratio>
#include <string>
#include <type_traits>

#include "trireme/rpc/wire_type.h"

namespace trireme::rpc {

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
