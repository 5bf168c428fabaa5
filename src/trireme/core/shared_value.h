// A value that a process shares with those that it forks off.
#pragma once
#include <cstddef>
#include <new>
#include <type_traits>

namespace trireme {

namespace detail {
/// Memory that forks share; an Error if there is none.
void* map_shared(std::size_t bytes);
void unmap_shared(void* memory, std::size_t bytes) noexcept;
}  // namespace detail

/// A T in memory of its own, the same for all processes that are forked off after it is
/// made. Without locks: T is an atomic, or one side is done before the other looks.
///
///     const SharedValue<std::atomic<int>> started;
///     if (fork() == 0) ++*started;
template <class T>
class SharedValue {
  // Every process ends it, so that there must be nothing to end.
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  SharedValue() : value_(new (detail::map_shared(sizeof(T))) T{}) {}
  ~SharedValue() { detail::unmap_shared(value_, sizeof(T)); }
  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;

  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

}  // namespace trireme
