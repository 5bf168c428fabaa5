// A training job that takes a moment, for tests.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trireme/comm/init.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/train/trainer.h"

namespace trireme::train {

/// Text enough for some windows.
inline std::string some_text() {
  std::string all;
  for (int i = 0; i < 300; ++i)
    all += "line " + std::to_string(i * 7919 % 1000) + " of a text\n";
  return all;
}

/// A GPT of four small blocks with dropout, on a file in `folder`.
inline Config tiny_config(const testing::ScratchFolder& folder) {
  Config config;
  config.job.dump_folder = (folder.path() / "run").string();
  config.model = {.dim = 32, .n_layers = 4, .n_heads = 2, .dropout = 0.1};
  const std::string file = folder.write("text.txt", some_text()).string();
  config.data.path = {file};
  config.data.held_out = {file};
  config.training.steps = 6;
  config.training.seq_len = 16;
  config.training.global_batch_size = 8;
  config.lr_scheduler.warmup_steps = 2;
  config.optimizer.lr = 3e-3;
  config.checkpoint.interval = 0;
  config.validation = {.freq = 0, .steps = 2};
  config.parallelism.pipeline_parallel_schedule = "1F1B";
  return config;
}

/// What came of a job, as rank 0 saw it.
struct JobOutcome {
  std::vector<StepMetrics> steps;
  TrainResult result;
};

/// Runs it on pp x dp threads, in the folder as it is.
inline JobOutcome run_job_there(
    Config config, int pp, int dp, TrainerOptions options = {}) {
  config.parallelism.pipeline_parallel_degree = pp;
  config.parallelism.data_parallel_replicate_degree = dp;
  if (pp == 1)
    config.parallelism.pipeline_parallel_schedule = "auto";
  JobOutcome outcome;
  comm::run_local(pp * dp, [&](const comm::Group& world) {
    TrainerOptions mine = options;
    if (world.rank() == 0)
      mine.on_step = [&](const StepMetrics& step) { outcome.steps.push_back(step); };
    TrainResult result = train(world, config, mine);
    if (world.rank() == 0)
      outcome.result = result;
  });
  return outcome;
}

/// The same; what an earlier run has left is removed, unless it is to go on.
inline JobOutcome run_job(
    const Config& config, int pp, int dp, const TrainerOptions& options = {}) {
  if (config.checkpoint.resume == "never")
    std::filesystem::remove_all(config.job.dump_folder);
  return run_job_there(config, pp, dp, options);
}

}  // namespace trireme::train
