// `trireme bench pipe`: pipelines beside torch.distributed.pipelining on gloo.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "trireme/bench/measure.h"
#include "trireme/bench/pipe_worker.h"

namespace trireme::bench {

/// What was measured of one model, in microseconds, round by round.
struct PipeTimes {
  /// By schedule; "" is one process.
  std::map<std::string, Samples> ours;
  std::map<std::string, Samples> torch;
  /// What the simulator says, by schedule.
  std::map<std::string, double> predicted;
  /// What it takes to time the actions of one step, by schedule.
  std::map<std::string, Samples> timing;
};

/// The backwards in two halves that are set beside whole ones, unmeasured.
std::vector<Record> backward_records();
/// The figures that are asked of the transformer blocks, from what was measured. Pure.
std::vector<Record> judge_blocks(const PipeTimes& times);
/// The same for large blocks on four ranks.
std::vector<Record> judge_wide(const PipeTimes& times);
/// The same for the small linear layers, where only overhead counts.
std::vector<Record> judge_linears(const PipeTimes& times);

/// Measures all; InvalidArgument when `only` leaves nothing. Progress goes to stderr.
BenchReport bench_pipe(const MeasureOptions& options);

}  // namespace trireme::bench
