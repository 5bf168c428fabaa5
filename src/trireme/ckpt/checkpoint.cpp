#include "trireme/ckpt/checkpoint.h"

#include <algorithm>

#include "trireme/ckpt/checkpoint_plan.h"
#include "trireme/ckpt/json_reader.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::ckpt {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostManifestBytes = uint64_t{64} << 20;
constexpr const char* kRemedy =
    "the checkpoint is damaged: remove its folder to go on from an older one";

bool is_tensor_file(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

void must_have_size(const fs::path& file, uint64_t bytes) {
  std::error_code error;
  const bool regular = fs::is_regular_file(file, error);
  const uint64_t got = regular ? fs::file_size(file, error) : 0;
  if (!regular || error || got != bytes)
    refuse(
        escaped(file.string()),
        text(bytes, " bytes, as ", kManifestName, " says"),
        !regular || error ? "no such file" : text(got),
        kRemedy);
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder) {
  const fs::path manifest = folder / kManifestName;
  std::error_code error;
  if (!fs::is_regular_file(manifest, error))
    refuse(
        escaped(folder.string()),
        trireme::text("a checkpoint with ", kManifestName),
        fs::is_directory(folder, error) ? "a folder without" : "no such folder",
        "give a folder step-N that Trireme has written");
  manifest_ =
      parse_manifest(read_file(manifest, kMostManifestBytes), manifest.string());
  for (const auto& [name, bytes] : manifest_.files)
    must_have_size(folder / name, bytes);
}

WeightFiles Checkpoint::weights() const {
  return WeightFiles(folder_, kWeightStem);
}

bool Checkpoint::has_optimizer() const {
  return manifest_.files.contains(single_name(kOptimizerStem)) ||
         manifest_.files.contains(index_name(kOptimizerStem));
}

WeightFiles Checkpoint::optimizer() const {
  if (!has_optimizer())
    refuse(
        escaped(folder_.string()),
        "the optimizer's state",
        "a checkpoint that was saved without",
        "load the weights alone");
  return WeightFiles(folder_, kOptimizerStem);
}

bool Checkpoint::has_text(const std::string& name) const {
  return manifest_.files.contains(name) && !is_tensor_file(name);
}

std::string Checkpoint::text(const std::string& name) const {
  if (!has_text(name))
    refuse(escaped(folder_.string()), in_quotes(name), "a checkpoint without it");
  return read_file(folder_ / name, manifest_.files.at(name));
}

std::optional<fs::path> latest_checkpoint(const fs::path& root) {
  const std::vector<int64_t> steps = checkpoint_steps(root);
  if (steps.empty())
    return std::nullopt;
  return root / step_name(steps.back());
}

}  // namespace trireme::ckpt
