// How values of C++ types travel: the trait, and what travels without numbers.
#pragma once
#include <string>
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
      "your own, take std::string for text, or keep the value where it is and send an "
      "RRef");
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
    reader.nothing();
    return {};
  }
  static std::string name() { return "nothing"; }
};

}  // namespace trireme::rpc
