// Who has which stage, and whether a schedule agrees.
#pragma once
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/pipe/pipeline.h"
#include "trireme/sched/schedule.h"

namespace trireme::pipe {

/// Asks all ranks which stages they have. InvalidArgument on all of them unless every
/// stage from 0 on is on one rank, and every rank has one.
std::vector<int> find_owners(
    const std::vector<Stage>& stages, const comm::Group& group);

/// The same from what the ranks have said; pure. `members` are the ranks in the world,
/// for messages.
std::vector<int> check_owners(
    const std::vector<std::vector<int64_t>>& stages_of_rank,
    const std::vector<int>& members = {});

/// What every stage saves and takes by name, on all ranks. Collective.
std::vector<StageSkips> gather_skips(
    const std::vector<Stage>& stages, const comm::Group& group, size_t stage_count);

/// The compute-only schedule (or, for a custom one, whatever it is) for so many
/// microbatches. InvalidArgument if it wants other stages, or elsewhere.
sched::Schedule make_schedule(
    const PipelineOptions& options,
    const std::vector<int>& rank_of_stage,
    int microbatches);

/// InvalidArgument if the schedule has other stages, or on other ranks.
void check_placement(
    const sched::Schedule& schedule, const std::vector<int>& rank_of_stage);

/// What this rank can say of its stages: InvalidArgument for one without a module or a
/// wrong declaration of what is tied, NotSupported for what does not go together.
void check_stages(
    const std::vector<Stage>& stages,
    const PipelineOptions& options,
    const std::vector<int>& rank_of_stage);

}  // namespace trireme::pipe
