// Finds the tensors in whatever a forward returns.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::dp {

/// Calls `f` with each tensor in a value, which it may replace: a tensor, or vectors,
/// arrays, maps, tuples, pairs and optionals of values, to any depth. Numbers, strings
/// and enums have none. For a type of your own, write a function of this name beside
/// it:
///
///     struct Output { at::Tensor logits, features; };
///     template <class F> void visit_tensors(Output& o, F&& f) {
///       f(o.logits);
///       f(o.features);
///     }
///
/// What refers to tensors of another worker, as an rpc::RRef does, calls
/// `f.elsewhere()` instead, if `f` has that.
template <class F>
void visit_tensors(at::Tensor& tensor, F&& f) {
  f(tensor);
}
template <class T, class F>
requires std::is_arithmetic_v<T> || std::is_enum_v<T>
void visit_tensors(T&, F&&) {}
template <class F>
void visit_tensors(std::string&, F&&) {}

// Declared before any is defined, so that they find one another.
template <class T, class F>
void visit_tensors(std::vector<T>& values, F&& f);
template <class T, size_t N, class F>
void visit_tensors(std::array<T, N>& values, F&& f);
template <class K, class T, class F>
void visit_tensors(std::map<K, T>& values, F&& f);
template <class K, class T, class F>
void visit_tensors(std::unordered_map<K, T>& values, F&& f);
template <class T, class F>
void visit_tensors(std::optional<T>& value, F&& f);
template <class A, class B, class F>
void visit_tensors(std::pair<A, B>& values, F&& f);
template <class... T, class F>
void visit_tensors(std::tuple<T...>& values, F&& f);

template <class T, class F>
void visit_tensors(std::vector<T>& values, F&& f) {
  for (T& value : values)
    visit_tensors(value, f);
}
template <class T, size_t N, class F>
void visit_tensors(std::array<T, N>& values, F&& f) {
  for (T& value : values)
    visit_tensors(value, f);
}
template <class K, class T, class F>
void visit_tensors(std::map<K, T>& values, F&& f) {
  for (auto& [key, value] : values)
    visit_tensors(value, f);
}
template <class K, class T, class F>
void visit_tensors(std::unordered_map<K, T>& values, F&& f) {
  for (auto& [key, value] : values)
    visit_tensors(value, f);
}
template <class T, class F>
void visit_tensors(std::optional<T>& value, F&& f) {
  if (value)
    visit_tensors(*value, f);
}
template <class A, class B, class F>
void visit_tensors(std::pair<A, B>& values, F&& f) {
  visit_tensors(values.first, f);
  visit_tensors(values.second, f);
}
template <class... T, class F>
void visit_tensors(std::tuple<T...>& values, F&& f) {
  std::apply([&](T&... value) { (visit_tensors(value, f), ...); }, values);
}

}  // namespace trireme::dp
