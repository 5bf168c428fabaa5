// What the stages of a pipeline cost, measured.
#pragma once
#include "trireme/pipe/pipeline.h"
#include "trireme/sched/cost_file.h"

namespace trireme::pipe {

struct ProfileOptions {
  /// Steps that are measured for each kind of backward, after one that warms up.
  int steps = 3;
};

/// Runs steps of fused and of split backwards on the pipeline's stages, and gives the
/// median time of every stage's F, B, I and W, in seconds, what F keeps and what
/// weights take, in bytes, how large messages are, and what every pair of ranks takes
/// for one: as seen in the steps, else as measured between their hosts. Gradients and
/// buffers are as before. A stage that cannot be split shows it: its I costs as much as
/// its B. Collective; all ranks get the whole.
///
///     std::ofstream("costs.json") << sched::to_json(profile(pipeline, batch));
///     // trireme schedule plan --costs costs.json --ranks 2
sched::CostFile profile(
    Pipeline& pipeline, const Batch& batch, const ProfileOptions& options = {});

/// All forwards, then all backwards, for any map of stages: ranks are as busy as in a
/// real schedule. With `split` the backwards are I, and W in the end.
sched::Schedule profile_schedule(
    const std::vector<int>& rank_of_stage,
    int microbatches,
    bool split,
    std::vector<sched::StageEdge> extra_edges = {});

}  // namespace trireme::pipe
