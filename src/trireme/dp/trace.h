// What data parallelism did, for people and for the trace viewer.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "trireme/comm/clock_offset.h"
#include "trireme/comm/group.h"
#include "trireme/dp/replica.h"
#include "trireme/dp/round_stats.h"

namespace trireme::dp {

/// Rounds as a Chrome trace for Perfetto: a track with the backward of each round, and
/// one with the way of each bucket, from its last gradient to the end of its reduction.
/// Ranks on several hosts give their clocks (comm::measure_offset(),
/// Pipeline::clock()), so that all of it, and the traces of pipelines, can be laid one
/// below the other.
std::string to_chrome_trace(
    const std::vector<RoundStats>& rounds,
    int rank,
    const comm::ClockOffset& clock = {});

/// One rank's last round, in nanoseconds.
struct RankTimes {
  /// From the first gradient to the last.
  int64_t backward_ns = 0;
  /// From the end of backward to the end of the round.
  int64_t wait_ns = 0;
  int64_t comm_ns = 0;
};
/// Those of all ranks. Collective.
std::vector<RankTimes> gather_times(const comm::Group& group, const RoundStats& stats);
/// The rank whose backward took longest, and by what factor over the median: who keeps
/// the others waiting.
struct Straggler {
  int rank = 0;
  double factor = 1;
};
Straggler find_straggler(const std::vector<RankTimes>& times);

/// What there is to know of a replica: the model, the options, the buckets, the last
/// round (times in nanoseconds), the variables of the environment that matter. What
/// torch's logging data has as well goes by its name there.
std::map<std::string, std::string> logging_data(const Replica& replica);

}  // namespace trireme::dp
