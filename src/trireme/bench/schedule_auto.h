// What Auto is worth: on costs that are drawn, beside the best schedule with a name.
#pragma once
#include <cstdint>

#include "trireme/sched/cost_file.h"

namespace trireme::bench {

/// Six layers a rank, up to four times as long as one another, and links of which a
/// quarter is ten times as slow as the rest. The same for a seed on every machine.
sched::CostFile drawn_costs(int ranks, uint64_t seed);

/// The least time of one and of two stages a rank, with four microbatches a rank.
double best_named_time(int ranks, const sched::CostFile& costs);
double auto_time(int ranks, const sched::CostFile& costs);

}  // namespace trireme::bench
