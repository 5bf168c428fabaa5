#include <filesystem>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/train/config.h"

namespace trireme::train {
namespace {

void need(bool holds, const std::string& message) {
  if (!holds)
    throw InvalidArgument(text("[train] ", message));
}

void check_model(const ModelConfig& model) {
  if (!model.hf_assets_path.empty())
    return;
  need(
      model.dim % model.n_heads == 0,
      text(
          "wanted model.dim to be a multiple of model.n_heads, got ",
          model.dim,
          " and ",
          model.n_heads));
  need(
      model.n_kv_heads == 0 || model.n_heads % model.n_kv_heads == 0,
      text(
          "wanted model.n_heads to be a multiple of model.n_kv_heads, got ",
          model.n_heads,
          " and ",
          model.n_kv_heads));
}

void check_parallelism(const ParallelismConfig& parallelism) {
  need(
      parallelism.pipeline_parallel_schedule_csv.empty() ||
          parallelism.pipeline_parallel_schedule == "auto",
      text(
          "wanted one schedule, got pipeline_parallel_schedule ",
          in_quotes(parallelism.pipeline_parallel_schedule),
          " and pipeline_parallel_schedule_csv ",
          in_quotes(parallelism.pipeline_parallel_schedule_csv),
          "; leave one of them out"));
  const int64_t pp = parallelism.pipeline_parallel_degree;
  const int64_t dp = parallelism.data_parallel_replicate_degree;
  need(
      parallelism.ranks == 0 || pp == 0 || dp == 0 || pp * dp == parallelism.ranks,
      text(
          "wanted parallelism.ranks to be pipeline_parallel_degree x "
          "data_parallel_replicate_degree, got ",
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
          "wanted data.path with data.format ",
          data.format,
          ", got none; name the files"));
  need(
      !data.tokenizer.empty(),
      "wanted data.tokenizer to be auto, bytes, none or a tokenizer.json, got nothing");
}

}  // namespace

void check_config(const Config& config) {
  check_model(config.model);
  check_data(config.data);
  check_parallelism(config.parallelism);
  need(
      config.training.local_batch_size <= config.training.global_batch_size,
      text(
          "wanted training.local_batch_size to be at most global_batch_size, got ",
          config.training.local_batch_size,
          " and ",
          config.training.global_batch_size));
  need(
      !std::filesystem::path(config.checkpoint.folder).is_absolute() &&
          !config.checkpoint.folder.empty(),
      text(
          "wanted checkpoint.folder to be a name in the run's folder, got ",
          in_quotes(config.checkpoint.folder)));
}

}  // namespace trireme::train
