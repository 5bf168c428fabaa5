// How the clocks of ranks on several hosts differ.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/comm/rank_hosts.h"
#include "trireme/core/clock.h"

namespace trireme::comm {

/// What to add to the times of a rank to get those of the group's first rank. Whatever
/// is drawn beside one another (steps, rounds of gradients) is moved by the same one.
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

/// The tag of the channels that it asks over.
inline constexpr int kClockTag = 0;

/// Asks the first rank for its time, a few times. Ranks under its kernel have its clock
/// and ask nothing. Clocks drift, so ask again now and then. Collective.
///
///     const auto hosts = gather_hosts(world, own_host());
///     const ClockOffset clock = measure_offset(world, hosts);
///     std::ofstream(file) << dp::to_chrome_trace(rounds, world.rank(), clock);
ClockOffset measure_offset(
    const Group& group,
    const std::vector<RankHost>& ranks,
    const NanosecondClock& clock = now_ns);

}  // namespace trireme::comm
