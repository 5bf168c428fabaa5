// How much of its deadline a wait has used, counted in looks.
#pragma once
#include <algorithm>
#include <chrono>

#include "trireme/core/deadline.h"

namespace trireme::comm {

/// The time that a wait may take, for loops that look, sleep a little, and look again.
/// Only what lies between two looks is charged, and of that not much: a process that
/// was stopped (Ctrl-Z) for an hour has not waited for an hour, and its peers may have
/// been stopped with it. Whoever begins to wait when the deadline has passed already,
/// because it was stopped or busy on the way, still waits a little before it gives up.
class WaitBudget {
 public:
  using Clock = Deadline::Clock;
  /// The most that is charged from one look to the next. Looks are 20 to 60 ms apart.
  static constexpr std::chrono::milliseconds kMostPerLook{100};
  /// The least that a wait is given, unless the whole deadline was shorter.
  static constexpr std::chrono::seconds kLeast{5};

  explicit WaitBudget(const Deadline& deadline)
      : left_(std::max<Clock::duration>(
            deadline.remaining(),
            std::clamp<Clock::duration>(
                deadline.allowed(), Clock::duration::zero(), kLeast))),
        last_look_(Clock::now()) {}

  Clock::duration left() const { return left_; }
  /// Charges the time since the last look; false when nothing is left.
  bool charge(Clock::time_point now = Clock::now()) {
    const auto passed = std::clamp<Clock::duration>(
        now - last_look_, Clock::duration::zero(), kMostPerLook);
    last_look_ = now;
    left_ = std::max(Clock::duration::zero(), left_ - passed);
    return left_.count() > 0;
  }

 private:
  Clock::duration left_;
  Clock::time_point last_look_;
};

}  // namespace trireme::comm
