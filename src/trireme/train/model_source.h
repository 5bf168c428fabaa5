// Where a job's model comes from.
#pragma once
#include <cstdint>
#include <filesystem>

#include "trireme/model/model_plan.h"
#include "trireme/train/config.h"

namespace trireme::train {

/// A model to build, and the folder of its weights if it has some.
struct ModelSource {
  model::ModelPlan plan;
  std::filesystem::path weights;
};

/// The model that the config describes, or that lies in model.hf_assets_path.
/// `vocab_size` is the tokenizer's, 0 if there is none. InvalidArgument if the two do
/// not fit, or seq_len is more than the model can take.
ModelSource describe_model(const Config& config, int64_t vocab_size);

/// How the config wants layers to be built.
model::BuildOptions build_options(const Config& config);

}  // namespace trireme::train
