#include <functional>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "trireme/train/config.h"
#include "trireme/train/config_file.h"

namespace trireme::train {
namespace {

std::string error_of(const std::function<void(Config&)>& change) {
  Config config;
  change(config);
  return testing::message_of<InvalidArgument>([&] { check_config(config); });
}

TEST(ConfigCheck, DefaultsAreFine) {
  EXPECT_NO_THROW(check_config({}));
}

TEST(ConfigCheck, RefusesWhatDoesNotFit) {
  const std::vector<std::pair<std::function<void(Config&)>, std::string>> cases{
      {[](Config& c) { c.model.dim = 130; }, "a multiple of model.n_heads, got 130"},
      {[](Config& c) {
         c.model.name = "llama";
         c.model.n_kv_heads = 3;
       },
       "a multiple of model.n_kv_heads"},
      {[](Config& c) {
         c.parallelism.ranks = 6;
         c.parallelism.pipeline_parallel_degree = 2;
         c.parallelism.data_parallel_replicate_degree = 2;
       },
       "got 6 and 2 x 2"},
      {[](Config& c) {
         c.parallelism.pipeline_parallel_schedule = "1F1B";
         c.parallelism.pipeline_parallel_schedule_csv = "x.csv";
       },
       "expected one schedule"},
      {[](Config& c) { c.parallelism.pipeline_parallel_schedule = "1F2B"; },
       "got \"1F2B\"; did you mean 1F1B?"},
      {[](Config& c) { c.parallelism.pipeline_parallel_stages_per_rank = 2; },
       "got 2 with auto, which chooses them"},
      {[](Config& c) {
         c.parallelism.pipeline_parallel_stages_per_rank = 2;
         c.parallelism.pipeline_parallel_schedule_csv = "x.csv";
       },
       "got 2 with a file, which has them"},
      {[](Config& c) { c.model.name = "lama"; }, "did you mean llama?"},
      {[](Config& c) { c.data.format = "megatron"; }, "expected data.path"},
      {[](Config& c) { c.training.local_batch_size = 1 << 20; }, "local_batch_size"},
      {[](Config& c) { c.checkpoint.folder = "/tmp"; }, "a name in the run's folder"},
  };
  for (const auto& [change, part] : cases)
    EXPECT_NE(error_of(change).find(part), std::string::npos) << error_of(change);
}

TEST(ConfigCheck, Recommenders) {
  const auto error = [](const std::string& key, const std::string& value) {
    Config config;
    config.model.name = "recommender";
    return testing::message_of<InvalidArgument>([&] {
      set_key(config, key, value);
      check_config(config);
    });
  };
  Config config;
  config.model.name = "recommender";
  config.model.dim = 7;  // it has no heads that must share it
  config.parallelism = {.ranks = 4, .embedding_servers = 3};
  EXPECT_NO_THROW(check_config(config));
  const auto expect =
      [&](const std::string& key, const std::string& value, const std::string& part) {
        EXPECT_NE(error(key, value).find(part), std::string::npos) << error(key, value);
      };
  expect(
      "parallelism.ranks",
      "3",
      "a multiple of parallelism.ranks, the trainers, got 16 and 3");
  expect("model.vocab_size", "1", "at least a user and an item");
  expect("model.hf_assets_path", "gpt2", "no model.name beside model.hf_assets_path");
  // Every key that it would not read is refused by its name.
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"model.n_layers", "2"},
           {"model.n_heads", "2"},
           {"model.n_kv_heads", "2"},
           {"model.dropout", "0.1"},
           {"model.tie_embeddings", "false"},
           {"data.path", "x.txt"},
           {"data.held_out", "x.txt"},
           {"data.format", "text"},
           {"data.tokenizer", "bytes"},
           {"data.shuffle", "false"},
           {"data.prefetch", "3"},
           {"training.seq_len", "8"},
           {"training.local_batch_size", "8"},
           {"training.max_norm", "1"},
           {"training.mixed_precision_param", "float32"},
           {"training.on_non_finite", "skip"},
           {"parallelism.pipeline_parallel_degree", "2"},
           {"parallelism.data_parallel_replicate_degree", "2"},
           {"parallelism.pipeline_parallel_schedule", "1F1B"},
           {"parallelism.pipeline_parallel_schedule_csv", "x.csv"},
           {"parallelism.pipeline_parallel_microbatch_size", "2"},
           {"parallelism.pipeline_parallel_stages_per_rank", "2"},
           {"profiling.profile_freq", "2"},
           {"activation_checkpoint.mode", "full"},
           {"checkpoint.enable", "true"},
           {"checkpoint.folder", "x"},
           {"checkpoint.interval", "2"},
           {"checkpoint.keep_latest_k", "2"},
           {"checkpoint.resume", "auto"}})
    expect(key, value, "expected no " + key + " beside model.name recommender");
  Config gpt;
  gpt.parallelism.embedding_servers = 2;
  EXPECT_NE(
      testing::message_of<InvalidArgument>([&] {
        check_config(gpt);
      }).find("expected no parallelism.embedding_servers"),
      std::string::npos);
}

TEST(ConfigCheck, KeysThatNobodyWouldReadAreRefused) {
  const std::vector<std::pair<std::function<void(Config&)>, std::string>> cases{
      {[](Config& c) {
         c.model.hf_assets_path = "gpt2";
         c.model.dim = 64;
       },
       "expected no model.dim beside model.hf_assets_path, whose config.json says it, "
       "got 64; leave it out"},
      {[](Config& c) {
         c.model.hf_assets_path = "gpt2";
         set_key(c, "model.n_layers", "4");  // the default, but asked for
       },
       "the command line: expected no model.n_layers"},
      {[](Config& c) { c.model.n_kv_heads = 2; }, "expected no model.n_kv_heads"},
      {[](Config& c) { c.optimizer.momentum = 0.9; }, "expected no optimizer.momentum"},
      {[](Config& c) {
         c.optimizer.name = "SGD";
         c.optimizer.beta2 = 0.9;
       },
       "expected no optimizer.beta2 beside optimizer.name SGD"},
      {[](Config& c) {
         c.lr_scheduler.decay_type = "constant";
         c.lr_scheduler.decay_ratio = 0.5;
       },
       "expected no lr_scheduler.decay_ratio"},
      {[](Config& c) {
         c.checkpoint.enable = false;
         c.checkpoint.interval = 5;
       },
       "expected no checkpoint.interval beside checkpoint.enable false"},
      {[](Config& c) {
         c.checkpoint.enable = false;
         set_key(c, "checkpoint.keep_latest_k", "2");  // the default, but asked for
       },
       "the command line: expected no checkpoint.keep_latest_k"},
      {[](Config& c) {
         c.data.path = {"a.txt"};
         c.validation.freq = 5;
       },
       "expected no validation.freq beside data.path without data.held_out"},
      {[](Config& c) {
         c.data.path = {"a.txt"};
         set_key(c, "validation.steps", "8");
       },
       "expected no validation.steps beside data.path without data.held_out"},
      {[](Config& c) {
         c.parallelism.pipeline_parallel_degree = 1;
         c.parallelism.pipeline_parallel_schedule = "GPipe";
       },
       "expected no parallelism.pipeline_parallel_schedule beside "
       "parallelism.pipeline_parallel_degree 1"}};
  for (const auto& [change, part] : cases)
    EXPECT_NE(error_of(change).find(part), std::string::npos) << error_of(change);
}

TEST(ConfigCheck, HeldOutDataIsEvaluated) {
  Config config;
  config.validation.freq = 5;  // of the text that comes with the program
  EXPECT_NO_THROW(check_config(config));
  config.data.path = {"a.txt"};
  config.data.held_out = {"b.txt"};
  EXPECT_NO_THROW(check_config(config));
}

TEST(ConfigCheck, TheConfigOfARunIsNeverRefusedForThem) {
  for (const auto& change : std::vector<std::function<void(Config&)>>{
           [](Config& c) { c.model.hf_assets_path = "gpt2"; },
           [](Config& c) { c.optimizer.name = "SGD"; },
           [](Config& c) { c.lr_scheduler.decay_type = "constant"; },
           [](Config& c) { c.checkpoint.enable = false; },
           [](Config& c) { c.data.path = {"a.txt"}; },
           [](Config& c) { c.parallelism.pipeline_parallel_degree = 1; },
           [](Config& c) { c.parallelism.pipeline_parallel_schedule = "GPipe"; }}) {
    Config config;
    change(config);
    Config again;
    read_toml(again, to_toml(config), "config.toml");
    EXPECT_NO_THROW(check_config(again));
  }
}

}  // namespace
}  // namespace trireme::train
