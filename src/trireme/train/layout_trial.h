// Trying a layout: a few real steps on made-up tokens.
#pragma once
#include "trireme/comm/group.h"
#include "trireme/model/model_plan.h"
#include "trireme/train/config.h"
#include "trireme/train/layout.h"

namespace trireme::train {

/// The time of a step under these degrees, in seconds: the best of a few, as the
/// slowest rank has it. Pipelines run under the schedule that the config names, or 1F1B
/// where it is to be chosen later. Collective; the same on all ranks. Leaves nothing
/// behind.
double time_layout(
    const comm::Group& world,
    const Config& config,
    const model::ModelPlan& plan,
    const Degrees& degrees);

}  // namespace trireme::train
