// A job's state as a checkpoint, and back.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/data/tokenizer.h"
#include "trireme/model/model_plan.h"
#include "trireme/train/config.h"
#include "trireme/train/engine.h"

namespace trireme::train {

/// What a job knows beside weights and optimizer states. Random numbers and the order
/// of samples follow from the seed and the step, so there is nothing else to keep.
struct TrainingState {
  /// Steps done.
  int64_t step = 0;
  int64_t tokens = 0;
  /// Of the files that it trains on, to notice others; 0: not known.
  int64_t data_tokens = 0;
  /// Over how many steps the learning rate rises and falls; 0: not known.
  int64_t schedule_steps = 0;
};

/// Whether every weight and every state of the optimizer is a finite number, on all
/// ranks. Collective over the world.
bool is_finite(const comm::Group& world, const Engine& engine);

/// Writes ROOT/step-N, with the tokenizer if there is one. InvalidArgument on all ranks
/// if weights or states are not finite: such a checkpoint is of no use, and must not
/// take the place of older ones. Collective over the world.
std::filesystem::path save_state(
    const comm::Group& world,
    const std::filesystem::path& root,
    const TrainingState& state,
    const model::ModelPlan& plan,
    const Config& config,
    const std::shared_ptr<const data::Tokenizer>& tokenizer,
    Engine& engine);

/// Loads a checkpoint into an engine of any layout and precision; check_resume() comes
/// first. InvalidArgument if its data would go on elsewhere: another seed, batch,
/// window or order.
TrainingState load_state(
    const std::filesystem::path& folder,
    const model::ModelPlan& plan,
    const Config& config,
    Engine& engine);

/// The layout that a checkpoint was saved under; nothing if it was for other degrees or
/// another batch, so that it does not fit.
std::optional<Layout> saved_layout(
    const std::filesystem::path& folder,
    const Degrees& degrees,
    const BatchShape& batch);

/// How many pipelines, and of how many ranks, a checkpoint was saved by; nothing if it
/// does not say.
std::optional<Degrees> saved_degrees(const std::filesystem::path& folder);

/// The checkpoint that checkpoint.resume asks for; none if it is to begin anew.
/// InvalidArgument if there is none where it says.
std::optional<std::filesystem::path> find_resume(
    const Config& config, const std::filesystem::path& checkpoints);

}  // namespace trireme::train
