// How structs of the user travel.
#pragma once
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "trireme/rpc/wire_type.h"

namespace trireme::rpc {

/// What of a struct travels. It travels with its name and version, and a reader whose
/// struct has others refuses it: count the version up whenever the members change.
///
///     template <>
///     struct trireme::rpc::Fields<Point> {
///       static constexpr auto name = "Point";
///       static constexpr int version = 1;
///       static constexpr auto members = std::tuple(&Point::x, &Point::y);
///       // Optional: throws for one that must not be, after it was read.
///       static void check(const Point& point);
///     };
///
/// Specialise it beside the struct, before the struct is first sent.
template <class T>
struct Fields;

/// A struct of the user that says what of it travels.
template <class T>
concept HasFields = requires {
  std::string_view(Fields<T>::name);
  int{Fields<T>::version};
  std::tuple_size<std::remove_cvref_t<decltype(Fields<T>::members)>>::value;
};

/// Takes a struct's name and version; InvalidArgument if they are not the expected.
void expect_struct(ValueReader& reader, std::string_view name, int version);

template <HasFields T>
struct WireType<T> {
  static void write(ValueWriter& writer, const T& value) {
    const StructDepth depth = writer.enter_struct();
    writer.string(Fields<T>::name);
    writer.bytes().u32(static_cast<std::uint32_t>(Fields<T>::version));
    std::apply(
        [&](auto... member) { (write_value(writer, value.*member), ...); },
        Fields<T>::members);
  }
  static T read(ValueReader& reader) {
    static_assert(
        std::is_default_constructible_v<T>,
        "a struct that travels needs a default constructor: its members are read into "
        "one");
    const StructDepth depth = reader.enter_struct();
    expect_struct(reader, Fields<T>::name, Fields<T>::version);
    T value{};
    const auto read_member = [&]<class Member>(Member& member) {
      member = read_value<Member>(reader);
    };
    std::apply(
        [&](auto... member) { (read_member(value.*member), ...); }, Fields<T>::members);
    if constexpr (requires { Fields<T>::check(value); })
      Fields<T>::check(value);
    return value;
  }
  static std::string name() {
    return std::string(Fields<T>::name) + " v" + std::to_string(Fields<T>::version);
  }
};

}  // namespace trireme::rpc
