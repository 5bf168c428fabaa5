// The clock by which things are timed.
#pragma once
#include <chrono>
#include <cstdint>

namespace trireme {

/// Nanoseconds of a clock that all processes under one kernel share.
///
///     const int64_t start = now_ns();
///     const int64_t took = now_ns() - start;
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace trireme
