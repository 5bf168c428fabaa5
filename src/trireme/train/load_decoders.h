// A saved model, spread over ranks, ready to generate.
#pragma once
#include <filesystem>

#include "trireme/comm/group.h"
#include "trireme/model/model_plan.h"
#include "trireme/train/generate.h"

namespace trireme::train {

/// This rank's stage of the model: layers are cut so that all ranks have about the same
/// work. The weights are those of `folder` (model.safetensors, or several with their
/// index); empty: drawn, the same on every layout. InvalidArgument if there are more
/// ranks than layers, or the files do not fit.
///
///     StageDecoders stages = load_decoders(world, plan, "gpt2");
///     Generated made = generate(world, stages, prompt, {}, plan.position_limit());
StageDecoders load_decoders(
    const comm::Group& world,
    const model::ModelPlan& plan,
    const std::filesystem::path& folder);

/// InvalidArgument unless so many ranks can have a layer each.
void check_ranks(const model::ModelPlan& plan, int ranks);

}  // namespace trireme::train
