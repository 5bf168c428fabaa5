// What a job would be, without running it: for any number of ranks.
#pragma once
#include <string>

#include "trireme/model/model_plan.h"
#include "trireme/train/config.h"
#include "trireme/train/layout.h"

namespace trireme::train {

/// Checks everything and describes the job with these degrees: the model, who does
/// what, the memory of each rank and the predicted bubble. With the schedule auto,
/// which measures, it is what costs by counting make of it.
///
///     std::cout << dry_run(config, plan, choose_degrees(config, plan, 4096));
std::string dry_run(
    const Config& config, const model::ModelPlan& plan, const Degrees& degrees);

}  // namespace trireme::train
