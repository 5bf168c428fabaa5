// What a training job is told: sections of plain values, named as torchtitan names
// them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme::train {

// What each key means stands once, in config_keys.cpp: `trireme train --help-keys`
// prints it from there.

struct JobConfig {
  std::string dump_folder;
};

struct ModelConfig {
  std::string name = "gpt2";
  std::string hf_assets_path;
  int64_t dim = 128;
  int64_t n_layers = 4;
  int64_t n_heads = 4;
  int64_t n_kv_heads = 0;
  int64_t hidden_dim = 0;
  int64_t vocab_size = 0;
  double dropout = -1;
  bool tie_embeddings = true;
};

struct DataConfig {
  std::vector<std::string> path;
  std::vector<std::string> held_out;
  std::string format = "auto";
  std::string tokenizer = "auto";
  bool shuffle = true;
  int64_t prefetch = 2;
};

struct TrainingConfig {
  int64_t steps = 1000;
  int64_t seq_len = 128;
  int64_t global_batch_size = 16;
  int64_t local_batch_size = 0;
  double max_norm = 1;
  std::string mixed_precision_param = "float32";
  std::string on_non_finite = "stop";
  int64_t seed = 1;
};

struct ParallelismConfig {
  int64_t ranks = 0;
  int64_t pipeline_parallel_degree = 0;
  int64_t data_parallel_replicate_degree = 0;
  std::string pipeline_parallel_schedule = "auto";
  std::string pipeline_parallel_schedule_csv;
  int64_t pipeline_parallel_microbatch_size = 0;
  int64_t pipeline_parallel_stages_per_rank = 0;
  int64_t embedding_servers = 0;
};

struct OptimizerConfig {
  std::string name = "AdamW";
  double lr = 4e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0;
};

struct LrSchedulerConfig {
  int64_t warmup_steps = 50;
  int64_t total_steps = 0;
  std::string decay_type = "cosine";
  double decay_ratio = 1;
  double min_lr_factor = 0.1;
};

struct CheckpointConfig {
  bool enable = true;
  std::string folder = "checkpoint";
  int64_t interval = 500;
  int64_t keep_latest_k = 2;
  std::string resume = "never";
};

struct ActivationCheckpointConfig {
  std::string mode = "none";
};

struct ValidationConfig {
  int64_t freq = 250;
  int64_t steps = 8;
};

struct MetricsConfig {
  int64_t log_freq = 50;
  std::string progress = "auto";
};

struct ProfilingConfig {
  int64_t profile_freq = 0;
};

/// A whole job. The defaults are what `trireme train` does without a word: a small
/// byte-level GPT on the text that comes with the program.
///
///     Config config;
///     read_toml(config, file_text, "job.toml");
///     set_key(config, "training.steps", "200");
///     check_config(config);
struct Config {
  JobConfig job;
  ModelConfig model;
  DataConfig data;
  TrainingConfig training;
  ParallelismConfig parallelism;
  OptimizerConfig optimizer;
  LrSchedulerConfig lr_scheduler;
  CheckpointConfig checkpoint;
  ActivationCheckpointConfig activation_checkpoint;
  ValidationConfig validation;
  MetricsConfig metrics;
  ProfilingConfig profiling;

  /// Where keys were set, by their full names, as errors say it: "job.toml:3", "the
  /// command line". A key that has its default is not there.
  std::map<std::string, std::string> origins{};
};

/// Whether it is a job of train/recommender.h, which has no layers of a language model.
inline bool is_recommender(const Config& config) {
  return config.model.name == "recommender";
}

/// InvalidArgument unless the values fit one another; each by itself was checked when
/// it was set.
void check_config(const Config& config);

}  // namespace trireme::train
