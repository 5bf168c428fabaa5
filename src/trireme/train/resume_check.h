// Whether a job may go on from a checkpoint: it must be of the same model and
// optimizer.
#pragma once
#include <filesystem>
#include <string>

#include "trireme/model/model_plan.h"
#include "trireme/train/config.h"

namespace trireme::train {

/// InvalidArgument names the key, what it is here and what it is in the checkpoint, if
/// that is of another model (dropout and precision may change), or if its optimizer's
/// states are not those that this job's would take. Reads no tensors.
void check_resume(
    const std::filesystem::path& checkpoint,
    const model::ModelPlan& plan,
    const Config& config);

/// Throws InvalidArgument about a checkpoint, with the ways on from it.
[[noreturn]] void refuse_checkpoint(
    const std::filesystem::path& checkpoint,
    const std::string& wanted,
    const std::string& got);

}  // namespace trireme::train
