#include <map>
#include <memory>

#include "trireme/ckpt/checkpoint.h"
#include "trireme/ckpt/checkpoint_plan.h"
#include "trireme/ckpt/json_reader.h"
#include "trireme/comm/agree.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::ckpt {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, uint64_t>;

std::vector<TensorEntry> describe(const NamedTensors& tensors) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back(describe_tensor(name, tensor));
    entries.back().end = tensor.nbytes();
  }
  return entries;
}

RankOutline outline_of(int64_t step, const CheckpointContent& content) {
  RankOutline outline{.step = step, .stages = content.stages};
  for (const StagePart& part : content.parts)
    outline.parts.push_back(
        {.stage = part.stage,
         .weights = describe(part.weights),
         .optimizer = describe(part.optimizer)});
  return outline;
}

void must_be_possible(
    int64_t step, const CheckpointContent& content, const SaveOptions& options) {
  if (step < 0)
    refuse("save_checkpoint", "a step of at least 0", text(step));
  if (options.keep < 0)
    refuse(
        "save_checkpoint",
        "to keep at least 1 checkpoint, or 0 for all",
        text(options.keep));
  for (const auto& [name, body] : content.texts)
    if (!is_plain_file_name(name) || name.starts_with('.') || name == kManifestName ||
        name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
      refuse(
          "save_checkpoint",
          "texts under plain names that the checkpoint does not need itself",
          in_quotes(name));
}

// The files of one family, as far as they are this rank's.
void write_parts(
    const fs::path& folder,
    const FamilyPlan& plan,
    const std::vector<StagePart>& parts,
    NamedTensors StagePart::*tensors,
    Files& files) {
  if (plan.files.empty())
    return;
  for (const StagePart& part : parts) {
    NamedTensors own;
    for (const auto& [name, tensor] : part.*tensors)
      if (plan.writes(part.stage, name))
        own.emplace_back(name, tensor);
    const std::string& file = plan.files[static_cast<size_t>(part.stage)];
    files[file] = write_safetensors(folder / file, own);
  }
}

Files write_rank_files(
    const fs::path& folder,
    const CheckpointPlan& plan,
    const CheckpointContent& content) {
  Files files;
  write_parts(folder, plan.weights, content.parts, &StagePart::weights, files);
  write_parts(folder, plan.optimizer, content.parts, &StagePart::optimizer, files);
  sync_folder(folder);
  return files;
}

Files write_common_files(
    const fs::path& folder,
    const CheckpointPlan& plan,
    const CheckpointContent& content) {
  Files files;
  for (const FamilyPlan* family : {&plan.weights, &plan.optimizer})
    if (family->has_index()) {
      const std::string name = index_name(family->stem);
      files[name] = write_durably(folder / name, write_weight_index(family->index));
    }
  for (const auto& [name, body] : content.texts)
    files[name] = write_durably(folder / name, body);
  return files;
}

// Rank 0 sees what the others have written, or they do not share a filesystem.
Manifest gather_files(
    const fs::path& folder,
    int64_t step,
    int stages,
    const std::vector<std::string>& of_ranks) {
  Manifest manifest{.step = step, .stages = stages};
  for (size_t rank = 0; rank < of_ranks.size(); ++rank)
    for (const auto& [name, bytes] : Json::parse(of_ranks[rank]).get<Files>()) {
      std::error_code error;
      const uint64_t got = fs::file_size(folder / name, error);
      if (error || got != bytes)
        refuse(
            escaped((folder / name).string()),
            text(bytes, " bytes, which rank ", rank, " wrote"),
            error ? error.message() : text(got),
            "the folder must lie on a filesystem that all ranks share");
      manifest.files[name] = bytes;
    }
  return manifest;
}

comm::AgreeOptions how_to_agree(const SaveOptions& options) {
  return {.module = "ckpt", .timeout = options.timeout};
}

CheckpointPlan agree_on_plan(
    const comm::Group& group,
    int64_t step,
    const CheckpointContent& content,
    const SaveOptions& options) {
  std::vector<RankOutline> outlines;
  for (const std::string& outline : comm::agree(group, how_to_agree(options), [&] {
         if (group.rank() == 0)
           must_be_possible(step, content, options);
         return write_outline(outline_of(step, content));
       }))
    outlines.push_back(parse_outline(outline));
  return plan_checkpoint(outlines);
}

}  // namespace

fs::path save_checkpoint(
    const comm::Group& group,
    const fs::path& root,
    int64_t step,
    const CheckpointContent& content,
    const SaveOptions& options) {
  const bool first = group.rank() == 0;
  const comm::AgreeOptions how = how_to_agree(options);
  const CheckpointPlan plan = agree_on_plan(group, step, content, options);
  std::unique_ptr<TemporaryFolder>
      temporary;  // on rank 0; goes with whatever is thrown
  const auto names = comm::agree(group, how, [&]() -> std::string {
    if (!first)
      return {};
    temporary = std::make_unique<TemporaryFolder>(root, step);
    return temporary->path().filename().string();
  });
  const fs::path folder = root / names[0];
  const auto written = comm::agree(group, how, [&] {
    Files files = write_rank_files(folder, plan, content);
    if (first)
      files.merge(write_common_files(folder, plan, content));
    return Json(files).dump();
  });
  comm::check_everywhere(group, how, [&] {
    if (!first)
      return;
    write_durably(
        folder / kManifestName,
        write_manifest(gather_files(folder, step, content.stages, written)));
    sync_folder(folder);
    temporary->publish();
    temporary.reset();
    prune_checkpoints(root, options.keep, step);
    remove_leftovers(root);
  });
  return root / step_name(step);
}

}  // namespace trireme::ckpt
