// The schedules that have a name.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// The size of a pipeline.
struct ScheduleSize {
  int ranks = 1;
  int microbatches = 1;
  /// 0: what the schedule is made for (1 or 2).
  int stages_per_rank = 0;
};

/// What there is to know about a schedule before it is made.
struct ScheduleInfo {
  /// torch's spelling, where torch has it.
  const char* name;
  const char* summary;
  StageMap map = StageMap::Loop;
  /// Stages a rank when nothing is said, and the most and fewest that it can have (0:
  /// any).
  int usual_stages = 1;
  int most_stages = 0;
  int fewest_stages = 1;
  /// Whether backward is split into I and W.
  bool splits = false;
  /// Whether torch 2.13 has it, with the same order of actions.
  bool in_torch = false;
};

/// All that have an order of their own, in the order of the documentation: all but
/// Auto.
std::span<const ScheduleInfo> all_schedules();

/// By name, Auto included, letters large or small; InvalidArgument lists the names.
const ScheduleInfo& find_schedule(std::string_view name);

/// Whether a schedule's name is Auto, letters large or small.
bool is_auto(std::string_view name);

/// The compute-only schedule; Auto is the one for equal stages and links without
/// latency, and make_auto() takes the real costs. InvalidArgument with the rule that is
/// broken and the nearest value that is legal.
///
///     Schedule s = generate("Interleaved1F1B", {.ranks = 4, .microbatches = 8,
///                                               .stages_per_rank = 2});
Schedule generate(std::string_view name, const ScheduleSize& size);

}  // namespace trireme::sched
