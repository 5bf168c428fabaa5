// What a rank did in a step, and when.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/core/clock.h"
#include "trireme/sched/action.h"

namespace trireme::pipe {

/// From when to when; both 0 if it is not known.
struct Interval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool operator==(const Interval&) const = default;
};

/// An action with its time. A receive begins when the rank starts to wait for it.
struct ActionTime {
  sched::Action action;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  /// The bytes of the step's tensors at its end; 0 without the caching allocator.
  int64_t live_bytes = 0;
  /// Of an overlap: when each half ran; not known if a handler took its place.
  Interval forward{};
  Interval backward{};

  bool has_halves() const { return forward.end_ns != 0 && backward.end_ns != 0; }
  /// Whether the halves ran at the same time, at least in part.
  bool at_once() const {
    return has_halves() && forward.start_ns < backward.end_ns &&
           backward.start_ns < forward.end_ns;
  }
};

/// The actions of one rank in one step, in the order of their ends.
struct Timeline {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::vector<ActionTime> actions;
  /// Of the largest message that the rank has sent.
  int64_t message_bytes = 0;
};

/// Notes an action that ends now. All that timing costs an action is this, and the
/// now_ns() at its start.
inline ActionTime& note_end(
    Timeline& timeline,
    const sched::Action& action,
    int64_t start_ns,
    int64_t live_bytes) {
  return timeline.actions.emplace_back(
      ActionTime{action, start_ns, now_ns(), live_bytes});
}

}  // namespace trireme::pipe
