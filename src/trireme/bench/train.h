// `trireme bench train`: the main job beside the same in PyTorch.
#pragma once
#include <string>
#include <vector>

#include "trireme/bench/measure.h"
#include "trireme/bench/train_worker.h"

namespace trireme::bench {

/// What is measured, and what is asked of it.
struct TrainCase {
  std::string name;
  /// "start": from the command to the first step, in microseconds. "crowd" and
  /// "layout": train_runs.h. Else an op of TrainJob. All but the first in tokens a
  /// second.
  std::string kind = "step";
  TrainJob job;
  int ranks = 2;
  double goal = 1;
  RoundPlan plan;
};

/// All cases, as long as they suit the options.
std::vector<TrainCase> train_cases(const MeasureOptions& options);

/// The tokens of one repetition.
int64_t tokens_of(const TrainJob& job);

/// Measures them; InvalidArgument when `only` leaves none. Progress goes to stderr.
BenchReport bench_train(const MeasureOptions& options);

}  // namespace trireme::bench
