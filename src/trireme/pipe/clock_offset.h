// How the clocks of ranks on several hosts differ.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/pipe/core_share.h"
#include "trireme/pipe/timeline.h"

namespace trireme::pipe {

/// What to add to the times of a rank to get those of the group's first rank.
struct ClockOffset {
  int64_t ns = 0;
  /// It is wrong by no more than this.
  int64_t error_ns = 0;
};

/// A question to the first rank: when it was asked and answered by the clock of the one
/// who asks, and what the other's clock said in between.
struct RoundTrip {
  int64_t asked_ns = 0;
  int64_t other_ns = 0;
  int64_t answered_ns = 0;
};

/// By the fastest of them, which leaves least in doubt; at least one.
ClockOffset find_offset(const std::vector<RoundTrip>& trips);

using NanosecondClock = std::function<int64_t()>;

/// The tag of the channels that it asks over; those of steps are higher.
inline constexpr int kClockTag = 0;

/// Asks the first rank for its time, a few times. Ranks on its host have its clock and
/// ask nothing. Clocks drift, so ask again now and then. Collective.
ClockOffset measure_offset(
    const comm::Group& group,
    const std::vector<RankCores>& ranks,
    const NanosecondClock& clock = now_ns);

/// The same timeline by the clock of the group's first rank.
Timeline shifted(Timeline timeline, const ClockOffset& offset);

}  // namespace trireme::pipe
