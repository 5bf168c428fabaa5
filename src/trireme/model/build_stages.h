// Builds the layers of a plan that a rank needs, and no others.
#pragma once
#include <vector>

#include "trireme/model/model_plan.h"
#include "trireme/pipe/split_model.h"
#include "trireme/pipe/tied.h"

namespace trireme::model {

/// The layers of some stages: those of one rank, in any order. Only they are allocated.
/// Tied parameters that meet on the rank are one tensor (ModelPlan::shares_tied).
/// InvalidArgument unless the ranges lie within the plan and do not overlap.
///
///     const auto ranges = sched::partition(costs, {0, 1, 1, 0});
///     const auto mine = build_stages(plan, {ranges[0], ranges[3]}, {.seed = 7});
std::vector<pipe::LayerList> build_stages(
    const ModelPlan& plan,
    const std::vector<sched::LayerRange>& ranges_of_my_stages,
    const BuildOptions& options);

/// The whole model as one list.
pipe::LayerList build_layers(const ModelPlan& plan, const BuildOptions& options);

/// What the pipeline must be told of tied parameters (PipelineOptions::tied) when the
/// layers are cut into these stages: nothing if they meet in one.
std::vector<pipe::Tied> tied_places(
    const ModelPlan& plan, const std::vector<sched::LayerRange>& ranges_of_all_stages);

}  // namespace trireme::model
