// How lists, maps and tuples of values travel.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trireme/rpc/packed_list.h"
#include "trireme/rpc/wire_type.h"

namespace trireme::rpc {

/// InvalidArgument: a list has another length than the array for it.
[[noreturn]] void refuse_length(
    std::size_t expected, std::size_t got, const char* what);
/// InvalidArgument: a key stands twice in a map.
[[noreturn]] void refuse_repeated_key(const char* what);

/// How many elements to make place for before they were read: bytes that claim many
/// small ones must not cost the memory of many large ones.
template <class T>
std::size_t early_places(std::size_t count) {
  return std::min(count, (std::size_t{64} << 10) / sizeof(T) + 1);
}

/// A list; numbers and bool go in one block (packed_list.h).
template <class T>
struct WireType<std::vector<T>> {
  static void write(ValueWriter& writer, const std::vector<T>& list) {
    if constexpr (std::same_as<T, bool>) {
      write_packed(writer, list);
    } else if constexpr (PackedNumber<T>) {
      write_packed(writer, number_form<T>(), list.data(), list.size());
    } else {
      writer.count(list.size());
      for (const T& element : list)
        write_value(writer, element);
    }
  }
  static std::vector<T> read(ValueReader& reader) {
    if constexpr (std::same_as<T, bool>) {
      return read_packed_bits(reader);
    } else if constexpr (PackedNumber<T>) {
      const PackedNumbers packed = read_packed(reader);
      std::vector<T> list(packed.count);
      unpack_numbers(packed, list.data(), reader.what());
      return list;
    } else {
      std::vector<T> list;
      const std::size_t count = reader.count();
      list.reserve(early_places<T>(count));
      for (std::size_t i = 0; i < count; ++i)
        list.push_back(read_value<T>(reader));
      return list;
    }
  }
  static std::string name() { return "list<" + type_name<T>() + ">"; }
};

/// A list of a known length.
template <class T, std::size_t N>
struct WireType<std::array<T, N>> {
  static void write(ValueWriter& writer, const std::array<T, N>& list) {
    if constexpr (std::same_as<T, bool>) {
      write_packed(writer, std::vector<bool>(list.begin(), list.end()));
    } else if constexpr (PackedNumber<T>) {
      write_packed(writer, number_form<T>(), list.data(), N);
    } else {
      writer.count(N);
      for (const T& element : list)
        write_value(writer, element);
    }
  }
  static std::array<T, N> read(ValueReader& reader) {
    std::array<T, N> list{};
    if constexpr (std::same_as<T, bool>) {
      const std::vector<bool> bits = read_packed_bits(reader);
      expect_length(bits.size(), reader);
      std::copy(bits.begin(), bits.end(), list.begin());
    } else if constexpr (PackedNumber<T>) {
      const PackedNumbers packed = read_packed(reader);
      expect_length(packed.count, reader);
      unpack_numbers(packed, list.data(), reader.what());
    } else {
      expect_length(reader.count(), reader);
      for (T& element : list)
        element = read_value<T>(reader);
    }
    return list;
  }
  static std::string name() { return "list<" + type_name<T>() + ">"; }

 private:
  static void expect_length(std::size_t got, const ValueReader& reader) {
    if (got != N)
      refuse_length(N, got, reader.what());
  }
};

template <class T>
struct WireType<std::optional<T>> {
  static void write(ValueWriter& writer, const std::optional<T>& value) {
    writer.bytes().flag(value.has_value());
    if (value)
      write_value(writer, *value);
  }
  static std::optional<T> read(ValueReader& reader) {
    if (!reader.bytes().flag())
      return std::nullopt;
    return read_value<T>(reader);
  }
  static std::string name() { return "optional<" + type_name<T>() + ">"; }
};

/// The names of types, with commas.
template <class First, class... Rest>
std::string type_names() {
  return (type_name<First>() + ... + (", " + type_name<Rest>()));
}

template <class First, class... Rest>
struct WireType<std::tuple<First, Rest...>> {
  using Tuple = std::tuple<First, Rest...>;
  static void write(ValueWriter& writer, const Tuple& tuple) {
    std::apply(
        [&](const auto&... element) { (write_value(writer, element), ...); }, tuple);
  }
  static Tuple read(ValueReader& reader) {
    // Braces: from left to right.
    return Tuple{read_value<First>(reader), read_value<Rest>(reader)...};
  }
  static std::string name() { return "tuple<" + type_names<First, Rest...>() + ">"; }
};

template <class First, class Second>
struct WireType<std::pair<First, Second>> {
  static void write(ValueWriter& writer, const std::pair<First, Second>& pair) {
    write_value(writer, pair.first);
    write_value(writer, pair.second);
  }
  static std::pair<First, Second> read(ValueReader& reader) {
    return std::pair<First, Second>{
        read_value<First>(reader), read_value<Second>(reader)};
  }
  static std::string name() { return "tuple<" + type_names<First, Second>() + ">"; }
};

/// A map in the order in which it stands; no key may come twice.
template <class Map>
struct WireMap {
  using Key = typename Map::key_type;
  using Mapped = typename Map::mapped_type;
  static void write(ValueWriter& writer, const Map& map) {
    writer.count(map.size());
    for (const auto& [key, mapped] : map) {
      write_value(writer, key);
      write_value(writer, mapped);
    }
  }
  static Map read(ValueReader& reader) {
    Map map;
    for (std::size_t left = reader.count(); left > 0; --left) {
      Key key = read_value<Key>(reader);
      Mapped mapped = read_value<Mapped>(reader);
      const std::size_t before = map.size();
      map.emplace_hint(map.end(), std::move(key), std::move(mapped));
      if (map.size() == before)
        refuse_repeated_key(reader.what());
    }
    return map;
  }
  static std::string name() { return "map<" + type_names<Key, Mapped>() + ">"; }
};

template <class Key, class Mapped, class Less>
struct WireType<std::map<Key, Mapped, Less>> : WireMap<std::map<Key, Mapped, Less>> {};

template <class Key, class Mapped, class Hash, class Equal>
struct WireType<std::unordered_map<Key, Mapped, Hash, Equal>>
    : WireMap<std::unordered_map<Key, Mapped, Hash, Equal>> {};

}  // namespace trireme::rpc
