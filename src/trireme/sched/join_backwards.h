// Makes one backward again of an I and its W, wherever their being apart gains nothing.
#pragma once
#include <cstdint>

#include "trireme/sched/costs.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// Changes a valid, compute-only schedule: one B in place of an I and its W, at the
/// place of either, as often as the whole does not take longer for it. Gives the new
/// makespan, at most the old one. No more than `most_steps` computations are carried
/// out to find out, beside once through the schedule for each round; what is not tried
/// by then stays as it is.
double join_backwards(Schedule& schedule, const Costs& costs, int64_t most_steps);

}  // namespace trireme::sched
