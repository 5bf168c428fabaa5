// What must not be lost or kept: counts how many there are.
#pragma once
#include <atomic>
#include <utility>

namespace trireme::rpc {

/// Tests give it a name of their own, so that each counts its own.
template <class Name>
struct Cargo {
  static inline std::atomic<int> alive{0};
  static inline std::atomic<int> copies{0};

  explicit Cargo(int number = 0) : value(number) { ++alive; }
  Cargo(const Cargo& other) : value(other.value) { ++alive, ++copies; }
  Cargo(Cargo&& other) noexcept : value(std::exchange(other.value, -1)) { ++alive; }
  Cargo& operator=(Cargo other) noexcept {
    std::swap(value, other.value);
    return *this;
  }
  ~Cargo() { --alive; }

  int value;
};

}  // namespace trireme::rpc
