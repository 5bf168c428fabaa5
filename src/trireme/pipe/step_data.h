// From a batch to the microbatches of a step. Pure; every wrong input is found here.
#pragma once
#include <string>
#include <vector>

#include "trireme/pipe/pipeline.h"

namespace trireme::pipe {

/// Which stages there are, and which are here.
struct StagePlaces {
  int rank = 0;
  std::vector<int> rank_of_stage;
  /// The ranks in the world of those of the pipeline; empty: the same.
  std::vector<int> members{};

  int last_stage() const { return static_cast<int>(rank_of_stage.size()) - 1; }
  bool has(int stage) const {
    return stage >= 0 && stage <= last_stage() &&
           rank_of_stage[static_cast<size_t>(stage)] == rank;
  }
};

/// What is asked of a step.
struct StepPurpose {
  StepCall call = StepCall::Step;
  bool trains = true;
  /// Targets are needed; otherwise they may be given.
  bool needs_targets = true;
};

/// How many microbatches the batch has: its own number, that of its lists, or that of
/// the options. InvalidArgument if they contradict one another or none is given.
int count_microbatches(const Batch& batch, const PipelineOptions& options);

/// Cuts the batch. InvalidArgument names the rank, the stage, what was expected and
/// what came: data on a rank that has no use for it, or none where it is needed, too
/// few rows, lists of a wrong length.
StepData make_step_data(
    const Batch& batch,
    const PipelineOptions& options,
    const StagePlaces& place,
    int microbatches,
    const StepPurpose& purpose);

}  // namespace trireme::pipe
