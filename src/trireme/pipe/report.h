// What a step really took, rank by rank, beside what the simulator said.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/clock_offset.h"
#include "trireme/comm/group.h"
#include "trireme/pipe/stage_splits.h"
#include "trireme/pipe/timeline.h"
#include "trireme/sched/costs.h"
#include "trireme/sched/schedule.h"
#include "trireme/sched/simulate.h"

namespace trireme::pipe {

/// One step as all ranks saw it. Times are in seconds.
///
///     const StepReport report = pipeline.report(measured);
///     std::cout << to_text(report);
struct StepReport {
  /// The lowered schedule that ran.
  sched::Schedule schedule;
  /// Makespan, bubbles, busy and idle times as they were, with their details.
  sched::Simulation measured;
  /// The same by the simulator, if there are costs; see predict().
  std::optional<sched::Simulation> predicted;
  /// Every action of every rank, messages included.
  std::vector<Timeline> timelines;
  /// The most bytes of tensors that a rank's step has held beside its weights; 0 unless
  /// the program has installed the caching allocator.
  std::vector<int64_t> peak_bytes;
  /// The same by the simulator, with gradients as large as weights; may be empty.
  std::vector<double> predicted_peak_bytes;
  /// What backwards in halves could split, by stage; see to_text(StageSplits).
  std::vector<StageSplits> splits;

  /// Simulates the schedule with these costs.
  void predict(const sched::Costs& costs);
};

/// The same timeline by the clock of the group's first rank.
Timeline shifted(Timeline timeline, const comm::ClockOffset& offset);

/// What the ranks have done, as a simulation: the computations only, from the first
/// start on. An overlap stands there as its two halves.
sched::Simulation measure(
    const sched::Schedule& schedule, const std::vector<Timeline>& timelines);

/// Gives every rank all timelines and peaks. Collective.
struct RankRecord {
  Timeline timeline;
  int64_t peak_bytes = 0;
};
std::vector<RankRecord> gather_records(
    const comm::Group& group, const RankRecord& mine);

/// A table for people: per rank busy, idle and peak, measured and predicted; the
/// bubbles, measured and predicted; what stages could not split.
std::string to_text(const StepReport& report);

/// A picture of the real step; see sched::draw_svg. The halves of an overlap that ran
/// at once lie one below the other.
std::string to_svg(const StepReport& report);

/// A Chrome trace for Perfetto: a process a rank with a track of what was measured, one
/// of the backward halves that ran at once with their forwards and, if there is a
/// prediction, one of what was planned; arrows for messages.
std::string to_trace(const StepReport& report);

}  // namespace trireme::pipe
