// Checkpoints of a run: ROOT/step-N/, written by all ranks together, whole or not at
// all. The front door of ckpt; docs/checkpoints.md tells the layout.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/ckpt/checkpoint_folder.h"
#include "trireme/ckpt/manifest.h"
#include "trireme/ckpt/safetensors.h"
#include "trireme/ckpt/weight_files.h"
#include "trireme/comm/group.h"

namespace trireme::ckpt {

/// What one stage has: its parameters and buffers under their names in the whole model,
/// and the optimizer's state for them, under names that the caller chooses.
struct StagePart {
  int stage = 0;
  NamedTensors weights;
  NamedTensors optimizer;
};

/// What one rank brings to a checkpoint.
struct CheckpointContent {
  /// Of the whole model; the same on all ranks.
  int stages = 1;
  /// Those that this rank writes. Over all ranks each stage comes once: of
  /// data-parallel replicas only one brings it, and the others bring nothing. Several
  /// stages may bring the same name (a tied parameter); the first one's is written.
  std::vector<StagePart> parts;
  /// Files beside them: config.json, trainer.json, tokenizer.json, … Those of rank 0 of
  /// the group are written, all others' are not looked at.
  std::map<std::string, std::string> texts;
};

/// How a checkpoint is saved. What rank 0 of the group says holds.
struct SaveOptions {
  /// How many checkpoints stay, this one and the highest others; 0: all.
  int keep = 0;
  /// How long ranks wait for one another in each phase, the slowest one's writing
  /// included; zero: the group's timeout.
  std::chrono::milliseconds timeout{0};
};

/// Writes ROOT/step-N and returns its path. Collective. All ranks write, fsync, and
/// only when everything is on the disk rank 0 gives the folder its name: a process
/// killed at any moment leaves what was there before. A checkpoint of that step is
/// replaced. What goes wrong on one rank (disk full, no permission) is an error on all
/// of them (PeerError on the others, with the reason), leaves nothing behind, and the
/// group can go on. The root must lie on a filesystem that all ranks share.
///
///     save_checkpoint(world, "run/checkpoint", step,
///         {.stages = 2,
///          .parts = {{.stage = 0, .weights = stage.parameters()}},
///          .texts = {{"config.json", config}}},
///         {.keep = 3});
std::filesystem::path save_checkpoint(
    const comm::Group& group,
    const std::filesystem::path& root,
    int64_t step,
    const CheckpointContent& content,
    const SaveOptions& options = {});

/// A checkpoint on the disk. The constructor checks that every file is there with the
/// size that it was written with, and names the first that is not (InvalidArgument).
///
///     const Checkpoint checkpoint(*latest_checkpoint("run/checkpoint"));
///     at::Tensor table = checkpoint.weights().read("wte.weight");
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  int64_t step() const { return manifest_.step; }
  /// With how many stages it was written.
  int stages() const { return manifest_.stages; }
  /// Opens the files; see WeightFiles.
  WeightFiles weights() const;
  bool has_optimizer() const;
  /// InvalidArgument if it was saved without.
  WeightFiles optimizer() const;
  bool has_text(const std::string& name) const;
  /// InvalidArgument for a name that is not there.
  std::string text(const std::string& name) const;

 private:
  std::filesystem::path folder_;
  Manifest manifest_;
};

/// The newest checkpoint of a run, by its number; nothing if there is none (yet). What
/// killed runs have left does not count, for it never got its name. But a newest one
/// that was damaged afterwards is returned all the same: Checkpoint then says what is
/// wrong with it. To pass over it would lose steps without a word.
std::optional<std::filesystem::path> latest_checkpoint(
    const std::filesystem::path& root);

}  // namespace trireme::ckpt
