#include <algorithm>
#include <filesystem>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"
#include "trireme/core/nearest.h"
#include "trireme/model/registry.h"
#include "trireme/sched/auto.h"
#include "trireme/sched/generate.h"
#include "trireme/train/config.h"
#include "trireme/train/config_file.h"
#include "trireme/train/config_keys.h"
#include "trireme/train/config_origin.h"

namespace trireme::train {
namespace {

void need(bool holds, const std::string& what, const std::string& remedy) {
  if (!holds)
    throw InvalidArgument(text("[train] expected ", what, "; ", remedy));
}

// A key that was set for nothing is a mistake that its owner should hear of.
void check_ignored(const Config& config) {
  for (const Key& key : config_keys()) {
    const std::string why = why_ignored(config, key);
    const bool set =
        config.origins.contains(full_name(key)) || !is_default(config, key);
    need(
        why.empty() || !set,
        text("no ", full_name(key), " beside ", why, ", got ", toml_value(config, key)),
        "leave it out");
  }
}

void check_name(const std::string& name) {
  std::vector<std::string> types = model::model_types();
  types.emplace_back("recommender");
  const std::string meant = nearest(name, types);
  need(
      std::find(types.begin(), types.end(), name) != types.end(),
      text("model.name to be one of ", list_names(types), ", got ", in_quotes(name)),
      meant.empty() ? "take one of these" : text("did you mean ", meant, "?"));
}

void check_model(const ModelConfig& model) {
  if (!model.hf_assets_path.empty())
    return;
  check_name(model.name);
  need(
      model.dim % model.n_heads == 0,
      text(
          "model.dim to be a multiple of model.n_heads, got ",
          model.dim,
          " and ",
          model.n_heads),
      "change one of them");
  need(
      model.n_kv_heads == 0 || model.n_heads % model.n_kv_heads == 0,
      text(
          "model.n_heads to be a multiple of model.n_kv_heads, got ",
          model.n_heads,
          " and ",
          model.n_kv_heads),
      "change one of them");
}

void check_schedule(const ParallelismConfig& parallelism) {
  const std::string& name = parallelism.pipeline_parallel_schedule;
  const std::string& csv = parallelism.pipeline_parallel_schedule_csv;
  if (!sched::is_auto(name))
    about("parallelism.pipeline_parallel_schedule", [&] {
      return &sched::find_schedule(name);
    });
  need(
      csv.empty() || sched::is_auto(name),
      text(
          "one schedule, got parallelism.pipeline_parallel_schedule ",
          in_quotes(name),
          " and parallelism.pipeline_parallel_schedule_csv ",
          in_quotes(csv)),
      "leave one of them out");
  need(
      parallelism.pipeline_parallel_stages_per_rank == 0 || !sched::is_auto(name),
      text(
          "parallelism.pipeline_parallel_stages_per_rank with a schedule that "
          "is named, got ",
          parallelism.pipeline_parallel_stages_per_rank,
          csv.empty() ? " with auto, which chooses them"
                      : " with a file, which has them"),
      "leave it out, or name a schedule");
}

void check_parallelism(const ParallelismConfig& parallelism) {
  check_schedule(parallelism);
  const int64_t pp = parallelism.pipeline_parallel_degree;
  const int64_t dp = parallelism.data_parallel_replicate_degree;
  need(
      parallelism.ranks == 0 || pp == 0 || dp == 0 || pp * dp == parallelism.ranks,
      text(
          "parallelism.ranks to be parallelism.pipeline_parallel_degree x "
          "parallelism.data_parallel_replicate_degree, got ",
          parallelism.ranks,
          " and ",
          pp,
          " x ",
          dp),
      "leave one of them out");
}

void check_data(const DataConfig& data) {
  need(
      !data.path.empty() || data.format == "auto" || data.format == "text",
      text("data.path with data.format ", data.format, ", got none"),
      "name the files");
  need(
      !data.tokenizer.empty(),
      "data.tokenizer to be auto, bytes, none or a tokenizer.json, got "
      "nothing",
      "take one of these");
}

void check_recommender(const Config& config) {
  const int64_t rows = config.model.vocab_size;
  need(
      rows != 1,
      "model.vocab_size of a recommender to be 0, or at least a user and an item, got "
      "1",
      "raise it");
  const int64_t trainers = std::max<int64_t>(1, config.parallelism.ranks);
  need(
      config.training.global_batch_size % trainers == 0,
      text(
          "training.global_batch_size to be a multiple of parallelism.ranks, the "
          "trainers, got ",
          config.training.global_batch_size,
          " and ",
          trainers),
      "change one of them");
}

void check_all(const Config& config) {
  check_ignored(config);
  if (is_recommender(config))
    return check_recommender(config);
  check_model(config.model);
  check_data(config.data);
  check_parallelism(config.parallelism);
  need(
      config.training.local_batch_size <= config.training.global_batch_size,
      text(
          "training.local_batch_size to be at most "
          "training.global_batch_size, "
          "got ",
          config.training.local_batch_size,
          " and ",
          config.training.global_batch_size),
      "lower the first or raise the second");
  need(
      !std::filesystem::path(config.checkpoint.folder).is_absolute() &&
          !config.checkpoint.folder.empty(),
      text(
          "checkpoint.folder to be a name in the run's folder, got ",
          in_quotes(config.checkpoint.folder)),
      "give a relative one");
}

}  // namespace

void check_config(const Config& config) {
  try {
    check_all(config);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(with_origins(config, error.what()));
  }
}

}  // namespace trireme::train
