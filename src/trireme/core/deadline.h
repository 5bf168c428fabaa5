// One type of time limit, carried through every blocking call.
#pragma once
#include <algorithm>
#include <chrono>

namespace trireme {

/// A point in time after which a call gives up. Cheap to copy; there is no endless one:
/// the longest is a day.
///
///     auto deadline = Deadline::after(std::chrono::seconds(5));
///     while (!ready()) if (deadline.expired()) throw TimeoutError(…);
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);

  /// A deadline that far from now; a negative time has already passed.
  static Deadline after(std::chrono::milliseconds time) {
    return Deadline(std::clamp(time, std::chrono::milliseconds(-1), kLongest));
  }

  /// The same with a little more time, for who waits for those that wait with this one:
  /// they give up first, and know better why. Half as much again, at most a second.
  Deadline later() const {
    Deadline other = *this;
    other.end_ += std::min<std::chrono::milliseconds>(
        std::max(allowed_, std::chrono::milliseconds(0)) / 2, std::chrono::seconds(1));
    return other;
  }

  /// Whether the time is over.
  bool expired() const { return Clock::now() >= end_; }

  /// What is left, never negative.
  Clock::duration remaining() const {
    return std::max(Clock::duration::zero(), end_ - Clock::now());
  }

  /// The time that was given at the start, for messages.
  std::chrono::milliseconds allowed() const { return allowed_; }

 private:
  explicit Deadline(std::chrono::milliseconds allowed)
      : end_(Clock::now() + allowed), allowed_(allowed) {}
  Clock::time_point end_;
  std::chrono::milliseconds allowed_;
};

}  // namespace trireme
