// What a rank did in a step, and when.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "trireme/sched/action.h"

namespace trireme::pipe {

/// Nanoseconds of a clock that all ranks of a host share.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// An action with its time. A receive begins when the rank starts to wait for it.
struct ActionTime {
  sched::Action action;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  /// The bytes of the step's tensors at its end; 0 without the caching allocator.
  int64_t live_bytes = 0;
};

/// The actions of one rank in one step, in the order of their ends.
struct Timeline {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::vector<ActionTime> actions;
};

}  // namespace trireme::pipe
