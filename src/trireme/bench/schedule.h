// `trireme bench schedule`: how long it takes to make and check a schedule, beside
// torch.
#pragma once
#include <vector>

#include "trireme/bench/measure.h"

namespace trireme::bench {

/// Measures all cases: one beside torch, a large one with its memory, how the cost
/// grows, and what Auto gains on drawn costs.
BenchReport bench_schedule(const MeasureOptions& options);

/// Its cases, unmeasured.
std::vector<Record> schedule_records(bool quick);

}  // namespace trireme::bench
