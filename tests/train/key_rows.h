// For every key of a config: values that are refused, and one whose effect can be seen.
#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "probe_model.h"
#include "tiny_job.h"
#include "trireme/core/error.h"
#include "trireme/data/tokenizer.h"
#include "trireme/testing/call_counter.h"
#include "trireme/train/config_file.h"
#include "trireme/train/dry_run.h"
#include "trireme/train/layout.h"
#include "trireme/train/layout_choice.h"
#include "trireme/train/model_source.h"
#include "trireme/train/recommender.h"
#include "trireme/train/token_sources.h"

namespace trireme::train {

struct KeyRow {
  std::string key;
  /// In words, as on the command line. `FOLDER` stands for the test's own.
  std::vector<std::string> wrong;
  std::string right;
  /// What a job of this config does, in words that do not change from run to run.
  std::function<std::string(const Config&)> observe;
  /// What else must be set for the key to matter.
  std::function<void(Config&)> prepare = [](Config&) {};
};

inline std::string in_folder(std::string word, const testing::ScratchFolder& folder) {
  if (word.starts_with("FOLDER"))
    word.replace(0, 6, folder.path().string());
  return word;
}

/// The job that rows change: small, and with all the files that they name.
inline Config key_config(const testing::ScratchFolder& folder, const KeyRow& row) {
  Config config = tiny_config(folder);
  config.training.steps = 4;
  folder.write("other.txt", std::string(500, 'z') + some_text());
  folder.write("text.bin", some_text() + some_text());  // an even size
  folder.write("tokenizer.json", data::byte_tokenizer()->to_json());
  folder.write("s.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  folder.write(
      "hf/config.json",
      R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2,
          "vocab_size": 300, "n_positions": 64})");
  row.prepare(config);
  return config;
}

// -- What can be seen of a job.

/// Losses, norms and rates, to the last bit.
inline std::string see_curve(Config config) {
  config.checkpoint = {.enable = false};  // syncing files is what takes time here
  std::ostringstream out;
  out.precision(17);
  for (const StepMetrics& step : run_job(config, 1, 1).steps)
    out << step.loss << " " << step.grad_norm << " " << step.lr << " "
        << step.held_out_loss.value_or(0) << "\n";
  return out.str();
}

/// The names of all files that a run leaves.
inline std::string see_files(const Config& config) {
  run_job(config, 1, 1);
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(config.job.dump_folder))
    names.insert(
        std::filesystem::relative(entry.path(), config.job.dump_folder).string());
  std::string all;
  for (const std::string& name : names)
    all += text(name, "\n");
  return all;
}

/// How often the blocks are computed: their activations are.
inline std::string see_recomputation(const Config& config) {
  const testing::CallCounter activations(at::RecordScope::FUNCTION, "aten::gelu");
  run_job(config, 1, 1);
  return text(activations.count(), " activations");
}

/// Where a run leaves them.
inline std::string see_place(const Config& config) {
  run_job_there(config, 1, 1);
  return text(std::filesystem::exists(
      std::filesystem::path(config.job.dump_folder).parent_path() / "elsewhere"));
}

inline std::string see_model(const Config& config) {
  return describe_model(config, 256).plan.config_json;
}

/// What --dry-run prints for a machine with four cores.
inline std::string see_layout(const Config& config) {
  const model::ModelPlan plan = describe_model(config, 256).plan;
  const LayoutRoom room{
      .ranks = static_cast<int>(config.parallelism.ranks), .cores = 4, .threads = 1};
  return dry_run(config, plan, list_layouts(config, plan, room).front().degrees);
}

inline std::string see_passes(const Config& config) {
  const BatchShape batch = choose_batch(config, {.pp = 1, .dp = 1});
  return text(batch.passes, " passes of ", to_text(batch));
}

inline std::string see_sources(const Config& config) {
  const TokenSources sources = open_sources(config);
  return text(
      sources.training.describe(),
      "; ",
      sources.held_out ? sources.held_out->describe() : "none");
}

/// How many lines of progress there are.
inline std::string see_progress(const Config& config) {
  std::ostringstream out;
  run_job(config, 1, 1, {.progress = &out});
  const std::string all = out.str();
  return text(std::count(all.begin(), all.end(), '\n'));
}

/// What becomes of a job with a step that is not finite.
inline std::string see_odd_step(const Config& config) {
  try {
    run_job(config, 1, 1, {.should_stop = spoil(1, 1, 1)});
  } catch (const InvalidArgument&) {
    return "stopped";
  }
  return "done";
}

/// What becomes of a second job in the same folder.
inline std::string see_second_run(const Config& config) {
  Config first = config;
  first.checkpoint.resume = "never";
  run_job_there(first, 1, 1);
  try {
    return text(run_job_there(config, 1, 1).steps.size());
  } catch (const InvalidArgument& error) {
    if (config.checkpoint.resume != "never")
      throw;
    return "refused";
  }
}

/// It only changes how fast things go: what the loader that a job makes has of it.
/// token_loader_test.cpp has what it does.
inline std::string see_prefetch(const Config& config) {
  const data::TokenLoader loader(
      open_sources(config).training, loader_options(config, 0, 1, 0));
  return text(loader.options().prefetch);
}

/// What --dry-run prints for a recommender.
inline std::string see_recommender(const Config& config) {
  return describe_recommender(config, recommender_ranks(config, 4));
}

inline void as_recommender(Config& config) {
  config = {};
  config.model.name = "recommender";
}

inline void as_llama(Config& config) {
  config.model.name = "llama";
  config.model.dropout = -1;
}

inline void on_two_ranks(Config& config) {
  config.parallelism.pipeline_parallel_degree = 2;
  config.parallelism.data_parallel_replicate_degree = 1;
}

inline const std::vector<KeyRow>& key_rows() {
  static const std::vector<KeyRow> rows{
      {"job.dump_folder", {"/dev/null/x"}, "FOLDER/elsewhere", see_place},

      {"model.name",
       {"gpt3", ""},
       "llama",
       see_model,
       [](Config& c) { c.model.dropout = -1; }},
      {"model.hf_assets_path",
       {"/no/such"},
       "FOLDER/hf",
       see_model,
       [](Config& c) { c.model = {}; }},
      {"model.dim", {"0", "x", "33", "1.5"}, "64", see_model},
      {"model.n_layers", {"0", "-1"}, "2", see_model},
      {"model.n_heads", {"0", "3"}, "4", see_model},
      {"model.n_kv_heads", {"-1", "3"}, "1", see_model, as_llama},
      {"model.hidden_dim", {"-1", "x"}, "48", see_model},
      {"model.vocab_size", {"-1", "100"}, "300", see_model},
      {"model.dropout", {"1", "-2", "x"}, "0.5", see_curve},
      {"model.tie_embeddings", {"maybe", "1"}, "false", see_model},

      {"data.path", {"/no/such"}, "FOLDER/other.txt", see_curve},
      {"data.held_out", {"/no/such"}, "FOLDER/other.txt", see_curve},
      {"data.format",
       {"csv", ""},
       "text",
       see_sources,
       [](Config& c) {
         std::filesystem::path path = c.data.path.front();
         c.data.path = {path.replace_filename("text.bin").string()};
         c.data.held_out = {};
         c.validation = {};
       }},
      {"data.tokenizer",
       {"/no/such", "none", ""},
       "FOLDER/tokenizer.json",
       see_sources},
      {"data.shuffle", {"maybe", "0"}, "false", see_curve},
      {"data.prefetch", {"0", "2000"}, "8", see_prefetch},

      {"training.steps", {"0", "-5", "many"}, "2", see_curve},
      {"training.seq_len", {"0", "1.5"}, "8", see_curve},
      {"training.global_batch_size", {"0", "x"}, "4", see_curve},
      {"training.local_batch_size", {"-1", "100", "3"}, "2", see_passes},
      {"training.max_norm", {"-1", "nan", "inf"}, "0.01", see_curve},
      {"training.mixed_precision_param", {"float16"}, "bfloat16", see_curve},
      {"training.on_non_finite",
       {"ignore"},
       "skip",
       see_odd_step,
       [](Config& c) {
         const testing::ScratchFolder unused;
         c.model = probe_config(unused).model;
       }},
      {"training.seed", {"-1", "x"}, "2", see_curve},

      {"parallelism.ranks", {"-1", "x"}, "2", see_layout},
      {"parallelism.pipeline_parallel_degree", {"-1", "100"}, "4", see_layout},
      {"parallelism.data_parallel_replicate_degree", {"-1", "x"}, "4", see_layout},
      {"parallelism.pipeline_parallel_schedule",
       {"1F2B"},
       "GPipe",
       see_layout,
       on_two_ranks},
      {"parallelism.pipeline_parallel_schedule_csv",
       {"/no/such"},
       "FOLDER/s.csv",
       see_layout,
       [](Config& c) {
         on_two_ranks(c);
         c.parallelism.pipeline_parallel_schedule = "auto";
         c.parallelism.pipeline_parallel_microbatch_size = 4;
       }},
      {"parallelism.pipeline_parallel_microbatch_size",
       {"-1", "3"},
       "4",
       see_layout,
       on_two_ranks},
      {"parallelism.pipeline_parallel_stages_per_rank",
       {"-1", "65"},
       "3",
       see_layout,
       [](Config& c) {
         on_two_ranks(c);
         c.parallelism.pipeline_parallel_schedule = "Interleaved1F1B";
       }},

      {"parallelism.embedding_servers",
       {"-1", "1025", "x"},
       "3",
       see_recommender,
       as_recommender},

      {"optimizer.name", {"Adam", ""}, "SGD", see_curve},
      {"optimizer.lr", {"-1", "x", "nan"}, "1e-2", see_curve},
      {"optimizer.beta1", {"-0.1", "1"}, "0.5", see_curve},
      {"optimizer.beta2", {"-0.1", "1"}, "0.5", see_curve},
      {"optimizer.eps", {"-1", "x"}, "1e-2", see_curve},
      {"optimizer.weight_decay", {"-1", "x"}, "0.5", see_curve},
      {"optimizer.momentum",
       {"-0.1", "2"},
       "0.9",
       see_curve,
       [](Config& c) { c.optimizer.name = "SGD"; }},

      {"lr_scheduler.warmup_steps", {"-1", "x"}, "0", see_curve},
      {"lr_scheduler.total_steps", {"-1", "x"}, "100", see_curve},
      {"lr_scheduler.decay_type", {"sqrt"}, "constant", see_curve},
      {"lr_scheduler.decay_ratio", {"-0.1", "2"}, "0.3", see_curve},
      {"lr_scheduler.min_lr_factor", {"-0.1", "2"}, "0.5", see_curve},

      {"checkpoint.enable",
       {"maybe"},
       "false",
       see_files,
       [](Config& c) { c.checkpoint = {}; }},
      {"checkpoint.folder", {"/tmp", ""}, "saved", see_files},
      {"checkpoint.interval", {"-1", "x"}, "2", see_files},
      {"checkpoint.keep_latest_k",
       {"-1", "x"},
       "1",
       see_files,
       [](Config& c) { c.checkpoint.interval = 2; }},
      {"checkpoint.resume", {"/no/such/step-1", ""}, "auto", see_second_run},

      {"activation_checkpoint.mode", {"some"}, "full", see_recomputation},

      {"validation.freq", {"-1", "x"}, "2", see_curve},
      {"validation.steps", {"0", "x"}, "1", see_curve},

      {"metrics.log_freq", {"0", "x"}, "2", see_progress},
      {"metrics.progress", {"loud"}, "none", see_progress},

      {"profiling.profile_freq", {"-1", "x"}, "2", see_files},
  };
  return rows;
}

}  // namespace trireme::train
