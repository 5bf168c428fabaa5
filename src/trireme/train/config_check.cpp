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

void need(bool holds, const std::string& message) {
  if (!holds)
    throw InvalidArgument(text("[train] ", message));
}

// A key that was set for nothing is a mistake that its owner should hear of.
void check_ignored(const Config& config) {
  for (const Key& key : config_keys()) {
    const std::string why = why_ignored(config, key);
    const bool set =
        config.origins.contains(full_name(key)) || !is_default(config, key);
    need(
        why.empty() || !set,
        text(
            "expected no ",
            full_name(key),
            " beside ",
            why,
            ", got ",
            toml_value(config, key),
            "; leave it out"));
  }
}

void check_name(const std::string& name) {
  const std::vector<std::string> types = model::model_types();
  need(
      std::find(types.begin(), types.end(), name) != types.end(),
      text(
          "expected model.name to be one of ",
          list_names(types),
          ", got ",
          in_quotes(name),
          did_you_mean(name, types)));
}

void check_model(const ModelConfig& model) {
  if (!model.hf_assets_path.empty())
    return;
  check_name(model.name);
  need(
      model.dim % model.n_heads == 0,
      text(
          "expected model.dim to be a multiple of model.n_heads, got ",
          model.dim,
          " and ",
          model.n_heads));
  need(
      model.n_kv_heads == 0 || model.n_heads % model.n_kv_heads == 0,
      text(
          "expected model.n_heads to be a multiple of model.n_kv_heads, got ",
          model.n_heads,
          " and ",
          model.n_kv_heads));
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
          "expected one schedule, got parallelism.pipeline_parallel_schedule ",
          in_quotes(name),
          " and parallelism.pipeline_parallel_schedule_csv ",
          in_quotes(csv),
          "; leave one of them out"));
  need(
      parallelism.pipeline_parallel_stages_per_rank == 0 || !sched::is_auto(name),
      text(
          "expected parallelism.pipeline_parallel_stages_per_rank with a schedule that "
          "is named, got ",
          parallelism.pipeline_parallel_stages_per_rank,
          csv.empty() ? " with auto, which chooses them"
                      : " with a file, which has them"));
}

void check_parallelism(const ParallelismConfig& parallelism) {
  check_schedule(parallelism);
  const int64_t pp = parallelism.pipeline_parallel_degree;
  const int64_t dp = parallelism.data_parallel_replicate_degree;
  need(
      parallelism.ranks == 0 || pp == 0 || dp == 0 || pp * dp == parallelism.ranks,
      text(
          "expected parallelism.ranks to be parallelism.pipeline_parallel_degree x "
          "parallelism.data_parallel_replicate_degree, got ",
          parallelism.ranks,
          " and ",
          pp,
          " x ",
          dp));
}

void check_data(const DataConfig& data) {
  need(
      !data.path.empty() || data.format == "auto" || data.format == "text",
      text(
          "expected data.path with data.format ",
          data.format,
          ", got none; name the files"));
  need(
      !data.tokenizer.empty(),
      "expected data.tokenizer to be auto, bytes, none or a tokenizer.json, got "
      "nothing");
}

void check_all(const Config& config) {
  check_ignored(config);
  check_model(config.model);
  check_data(config.data);
  check_parallelism(config.parallelism);
  need(
      config.training.local_batch_size <= config.training.global_batch_size,
      text(
          "expected training.local_batch_size to be at most "
          "training.global_batch_size, "
          "got ",
          config.training.local_batch_size,
          " and ",
          config.training.global_batch_size));
  need(
      !std::filesystem::path(config.checkpoint.folder).is_absolute() &&
          !config.checkpoint.folder.empty(),
      text(
          "expected checkpoint.folder to be a name in the run's folder, got ",
          in_quotes(config.checkpoint.folder)));
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
