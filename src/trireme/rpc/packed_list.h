// Lists of numbers as one block of bytes, so that long ones cost no call an element.
#pragma once
#include <bit>
#include <climits>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "trireme/rpc/wire_numbers.h"

namespace trireme::rpc {

/// How the numbers of a block are written; those of the sender's type, so that lists of
/// one type on both sides are copied as they are.
enum class NumberForm : std::uint8_t {
  Bits,
  I8,
  U8,
  I16,
  U16,
  I32,
  U32,
  I64,
  U64,
  F32,
  F64
};

/// What travels in such a block: numbers and enumerations, but for bool.
template <class T>
concept PackedNumber =
    WholeNumber<T> || WireEnum<T> || std::same_as<T, float> || std::same_as<T, double>;

/// The type behind an enumeration, or T itself.
template <class T>
struct NumberOf {
  using type = T;
};
template <WireEnum T>
struct NumberOf<T> {
  using type = std::underlying_type_t<T>;
};

/// The form of a T.
template <PackedNumber T>
consteval NumberForm number_form() {
  using Number = typename NumberOf<T>::type;
  if constexpr (std::floating_point<Number>)
    return sizeof(T) == 4 ? NumberForm::F32 : NumberForm::F64;
  const int width = std::countr_zero(sizeof(T));
  return static_cast<NumberForm>(1 + 2 * width + (std::is_signed_v<Number> ? 0 : 1));
}

/// A block of numbers among the bytes that arrived; they may lie at any address.
struct PackedNumbers {
  NumberForm form = NumberForm::I64;
  std::size_t count = 0;
  std::string_view bytes;
};

/// Writes `count` numbers of a form. InvalidArgument for a U64 that no signed number
/// of 64 bits can hold.
void write_packed(
    ValueWriter& writer, NumberForm form, const void* numbers, std::size_t count);
void write_packed(ValueWriter& writer, const std::vector<bool>& bits);

/// Reads what write_packed() wrote of numbers.
PackedNumbers read_packed(ValueReader& reader);
/// The same for bits.
std::vector<bool> read_packed_bits(ValueReader& reader);

/// InvalidArgument: the list's numbers are of another kind.
[[noreturn]] void refuse_kind(const char* expected, const char* got, const char* what);

/// The number at `at`, written as a From, as a T.
template <class T, class From>
T packed_number(std::string_view bytes, std::size_t at, const char* what) {
  using Number = typename NumberOf<T>::type;
  From number{};
  std::memcpy(&number, bytes.data() + at * sizeof(From), sizeof(From));
  if constexpr (std::integral<From>)
    return static_cast<T>(checked_number<Number>(number, what));
  else
    return static_cast<T>(number);
}

/// Puts the numbers into `out`, which has place for all of them; InvalidArgument where
/// one does not fit.
template <PackedNumber T>
void unpack_numbers(const PackedNumbers& packed, T* out, const char* what) {
  if (packed.form == number_form<T>()) {
    if (packed.count > 0)
      std::memcpy(out, packed.bytes.data(), packed.bytes.size());
    return;
  }
  const auto convert = [&]<class From>(From) {
    if constexpr (std::floating_point<From> != std::floating_point<T>)
      refuse_kind(
          std::floating_point<T> ? "float" : "int",
          std::floating_point<T> ? "int" : "float",
          what);
    else
      for (std::size_t i = 0; i < packed.count; ++i)
        out[i] = packed_number<T, From>(packed.bytes, i, what);
  };
  switch (packed.form) {
    case NumberForm::Bits:
      return refuse_kind("numbers", "bool", what);
    case NumberForm::I8:
      return convert(std::int8_t{});
    case NumberForm::U8:
      return convert(std::uint8_t{});
    case NumberForm::I16:
      return convert(std::int16_t{});
    case NumberForm::U16:
      return convert(std::uint16_t{});
    case NumberForm::I32:
      return convert(std::int32_t{});
    case NumberForm::U32:
      return convert(std::uint32_t{});
    case NumberForm::I64:
      return convert(std::int64_t{});
    case NumberForm::U64:
      return convert(std::uint64_t{});
    case NumberForm::F32:
      return convert(float{});
    case NumberForm::F64:
      return convert(double{});
  }
}

}  // namespace trireme::rpc
