// Values with all their tensors on one device.
#pragma once
#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/rpc/wire_struct.h"

namespace trireme::rpc {

/// Finds the tensors inside of a value that travels: in containers, and in structs with
/// Fields. What else there is, has none.
template <class T>
struct TensorsOf {
  static void put_on(T&, c10::Device) {}
};

/// Puts all tensors of a value on a device, those that are elsewhere.
template <class T>
void put_on(T& value, c10::Device device) {
  TensorsOf<T>::put_on(value, device);
}

template <>
struct TensorsOf<at::Tensor> {
  static void put_on(at::Tensor& tensor, c10::Device device) {
    if (tensor.defined() && tensor.device() != device)
      tensor = tensor.to(device);
  }
};

template <class T>
struct TensorsOf<std::optional<T>> {
  static void put_on(std::optional<T>& value, c10::Device device) {
    if (value)
      rpc::put_on(*value, device);
  }
};

template <class List>
struct TensorsOfList {
  static void put_on(List& list, c10::Device device) {
    for (auto& element : list)
      rpc::put_on(element, device);
  }
};
// bool has no tensors, and its vector no references.
template <class T>
requires(!std::same_as<T, bool>) struct TensorsOf<std::vector<T>>
    : TensorsOfList<std::vector<T>> {
};
template <class T, std::size_t N>
struct TensorsOf<std::array<T, N>> : TensorsOfList<std::array<T, N>> {};

template <class... T>
struct TensorsOf<std::tuple<T...>> {
  static void put_on(std::tuple<T...>& values, c10::Device device) {
    std::apply([&](auto&... value) { (rpc::put_on(value, device), ...); }, values);
  }
};
template <class First, class Second>
struct TensorsOf<std::pair<First, Second>> {
  static void put_on(std::pair<First, Second>& values, c10::Device device) {
    rpc::put_on(values.first, device);
    rpc::put_on(values.second, device);
  }
};

template <class Map>
struct TensorsOfMap {
  static void put_on(Map& map, c10::Device device) {
    for (auto& [key, mapped] : map)
      rpc::put_on(mapped, device);
  }
};
template <class Key, class Mapped, class Less>
struct TensorsOf<std::map<Key, Mapped, Less>>
    : TensorsOfMap<std::map<Key, Mapped, Less>> {};
template <class Key, class Mapped, class Hash, class Equal>
struct TensorsOf<std::unordered_map<Key, Mapped, Hash, Equal>>
    : TensorsOfMap<std::unordered_map<Key, Mapped, Hash, Equal>> {};

template <HasFields T>
struct TensorsOf<T> {
  static void put_on(T& value, c10::Device device) {
    std::apply(
        [&](auto... member) { (rpc::put_on(value.*member, device), ...); },
        Fields<T>::members);
  }
};

}  // namespace trireme::rpc
