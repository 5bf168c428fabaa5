#include "trireme/train/dry_run.h"

#include <chrono>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/train/layout_choice.h"
#include "trireme/train/model_source.h"

namespace trireme::train {
namespace {

TEST(DryRun, DescribesTheDefaultJob) {
  Config config;
  const std::string told =
      dry_run(config, describe_model(config, 256).plan, {.pp = 2, .dp = 1});
  EXPECT_NE(told.find("model: gpt2, "), std::string::npos) << told;
  EXPECT_NE(told.find("2 ranks: 1 pipeline of 2"), std::string::npos) << told;
  EXPECT_NE(told.find("which needs most: "), std::string::npos) << told;
  EXPECT_NE(told.find("will be chosen when costs were measured"), std::string::npos);
}

TEST(DryRun, LaysOutThousandsOfRanksInAMoment) {
  // 405 billion parameters, which nobody here could allocate.
  Config config;
  config.model = {
      .name = "llama",
      .dim = 16384,
      .n_layers = 126,
      .n_heads = 128,
      .n_kv_heads = 8,
      .hidden_dim = 53248,
      .vocab_size = 128256,
      .tie_embeddings = false};
  config.training.seq_len = 8192;
  config.training.global_batch_size = 4096;
  config.training.mixed_precision_param = "bfloat16";
  config.activation_checkpoint.mode = "full";
  config.parallelism.pipeline_parallel_degree = 64;
  config.parallelism.pipeline_parallel_schedule = "1F1B";
  config.parallelism.pipeline_parallel_microbatch_size = 1;
  const auto start = std::chrono::steady_clock::now();
  const model::ModelPlan plan = describe_model(config, 256).plan;
  const std::string told = dry_run(config, plan, choose_degrees(config, plan, 4096));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_NE(told.find("405,"), std::string::npos) << told;
  EXPECT_NE(told.find("4096 ranks: 64 pipelines of 64"), std::string::npos) << told;
  EXPECT_NE(told.find("GiB"), std::string::npos);
}

TEST(DryRun, CountsTheLogits) {
  Config config;
  config.model = {.dim = 8, .n_layers = 1, .n_heads = 1, .vocab_size = 50'257};
  config.training.seq_len = 1024;
  config.training.global_batch_size = 4;
  config.parallelism.pipeline_parallel_microbatch_size = 4;
  // 4 x 1024 x 50,257 numbers of 4 bytes are 785 MiB, three times; all else is a few.
  const std::string told =
      dry_run(config, describe_model(config, 256).plan, {.pp = 1, .dp = 1});
  EXPECT_NE(told.find("activations 2.3 GiB"), std::string::npos) << told;
}

TEST(DryRun, RefusesWhatTheJobWould) {
  Config config;
  const auto plan = describe_model(config, 256).plan;
  EXPECT_THROW(  // 16 samples
      dry_run(config, plan, {.pp = 1, .dp = 3}),
      InvalidArgument);
  config.parallelism.pipeline_parallel_schedule = "NoSuch";
  EXPECT_THROW(dry_run(config, plan, {.pp = 2, .dp = 1}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::train
