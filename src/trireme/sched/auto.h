// Auto: the schedule that suits measured costs best.
#pragma once
#include <optional>
#include <string>

#include "trireme/sched/cost_file.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/list_schedule.h"

namespace trireme::sched {

struct AutoResult {
  Schedule schedule;
  double makespan = 0;
  /// Where it comes from: "rules", or the name of a schedule.
  std::string origin;
};

/// Takes the best of what there is for these costs and this memory: every schedule with
/// a name that fits, and schedules that are built by rules. Then joins I and W again
/// wherever their being apart fills no bubble. The larger the pipeline, the fewer ways
/// are tried: it takes a second at most. InvalidArgument if nothing fits into the
/// memory, or as check_problem().
///
///     AutoResult best = make_auto({.rank_of_stage = {0, 1, 2, 3}, .microbatches = 8,
///                                  .costs = measured});
AutoResult make_auto(const OrderProblem& problem);

/// The same, or nothing if nothing fits into the memory.
std::optional<AutoResult> find_auto(const OrderProblem& problem);

/// The same for stages that may lie in a loop or there and back, whichever is better.
AutoResult make_auto(
    const ScheduleSize& size,
    const CostFile& costs,
    double memory_limit = std::numeric_limits<double>::infinity());

}  // namespace trireme::sched
