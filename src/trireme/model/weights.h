// Weights between a model and the files of a folder, by name.
#pragma once
#include <vector>

#include "trireme/ckpt/safetensors.h"
#include "trireme/ckpt/weight_files.h"
#include "trireme/model/model_plan.h"

namespace trireme::model {

/// Reads the parameters of these layers, whichever part of the model they are, and
/// turns them into the dtype that the layers have. Before the first one is read all
/// names are compared: InvalidArgument names a parameter that is missing in the files
/// or has another shape or no floating-point dtype there, and a tensor that the model
/// does not have. A tied parameter is found under any of its names; buffers that old
/// files hold are passed over (FileNames).
///
///     const ckpt::WeightFiles files("models/gpt2");
///     load_weights(stages, plan, files);
void load_weights(
    const std::vector<pipe::LayerList>& stages,
    const ModelPlan& plan,
    const ckpt::WeightFiles& files);

/// The parameters of these layers under the names that they have in files; of a tied
/// one the first name only, so that exactly one stage saves it.
ckpt::NamedTensors weights_to_save(
    const pipe::LayerList& layers, const ModelPlan& plan);

}  // namespace trireme::model
