// `trireme bench launch`: how long a job of ranks takes to start, beside torchrun.
#pragma once
#include <vector>

#include "trireme/bench/measure.h"

namespace trireme::bench {

/// Measures all cases: the first barrier, the launcher's share, many ranks, memory.
BenchReport bench_launch(const MeasureOptions& options);

/// Its cases, unmeasured.
std::vector<Record> launch_records();

/// The program that all sides start: a rank that joins its world and meets it at a
/// barrier; rank 0 prints when that was. Returns its exit code.
int run_launch_worker();

}  // namespace trireme::bench
