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

/// The model of a checkpoint or of a Hugging Face folder, by its config.json.
/// InvalidArgument if it has none.
model::ModelPlan plan_folder(const std::filesystem::path& folder);

/// Which keys have values that were chosen for the small new model of the demo, and not
/// for these weights: "training.seq_len 128 (the model takes up to 1024), optimizer.lr
/// 0.004". Empty if the config sets them, or there are no weights to load.
std::string demo_values(const Config& config, const ModelSource& source);

/// InvalidArgument if there are such keys.
void check_demo_values(const Config& config, const ModelSource& source);

/// How the config wants layers to be built.
model::BuildOptions build_options(const Config& config);

}  // namespace trireme::train
