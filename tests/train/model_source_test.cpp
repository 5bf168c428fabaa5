#include "trireme/train/model_source.h"

#include <functional>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/train/config_file.h"

namespace trireme::train {
namespace {

using testing::message_of;

TEST(ModelSource, MakesAGpt2OfTheConfig) {
  Config config;
  config.model = {.dim = 32, .n_layers = 3, .n_heads = 2, .hidden_dim = 48};
  const ModelSource source = describe_model(config, 256);
  EXPECT_EQ(source.plan.type, "gpt2");
  EXPECT_EQ(source.plan.vocab_size, 256);
  EXPECT_EQ(source.plan.max_positions, config.training.seq_len);
  EXPECT_EQ(source.plan.tied.size(), 1U);
  EXPECT_TRUE(source.weights.empty());
  config.model.vocab_size = 300;
  EXPECT_EQ(describe_model(config, 256).plan.vocab_size, 300);
}

TEST(ModelSource, MakesALlama) {
  Config config;
  config.model = {
      .name = "llama",
      .dim = 32,
      .n_layers = 2,
      .n_heads = 4,
      .n_kv_heads = 2,
      .tie_embeddings = false};
  const ModelSource source = describe_model(config, 256);
  EXPECT_EQ(source.plan.type, "llama");
  EXPECT_TRUE(source.plan.tied.empty());
  EXPECT_NE(
      source.plan.config_json.find("\"intermediate_size\": 88"), std::string::npos)
      << source.plan.config_json;
}

TEST(ModelSource, ANewModelHasNoTokensOfAnotherVocabulary) {
  for (const char* name : {"gpt2", "llama"})
    for (const int64_t vocabulary : {256, 60'000}) {
      Config config;
      config.model.name = name;
      const std::string json = describe_model(config, vocabulary).plan.config_json;
      for (const char* key : {"bos_token_id", "eos_token_id"})
        EXPECT_NE(json.find(text('"', key, "\": null")), std::string::npos) << json;
    }
}

TEST(ModelSource, ValuesOfTheDemoAreNotForLoadedWeights) {
  const testing::ScratchFolder folder;
  folder.write(
      "config.json",
      R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2,
          "vocab_size": 300, "n_positions": 256})");
  Config config;
  config.model.hf_assets_path = folder.path().string();
  EXPECT_NO_THROW(check_demo_values(config, describe_model(config, 256)));
  folder.write("model.safetensors", "x");
  const ModelSource source = describe_model(config, 256);
  const std::string error =
      message_of<Error>([&] { check_demo_values(config, source); });
  EXPECT_NE(
      error.find(
          "training.seq_len 128 (the model takes up to 256), optimizer.lr 0.004;"),
      std::string::npos)
      << error;
  config.optimizer.lr = 1e-4;
  EXPECT_EQ(
      demo_values(config, source), "training.seq_len 128 (the model takes up to 256)");
  // Who says so means it.
  set_key(config, "training.seq_len", "128");
  EXPECT_NO_THROW(check_demo_values(config, source));
}

TEST(ModelSource, ReadsAFolder) {
  const testing::ScratchFolder folder;
  folder.write(
      "config.json",
      R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2,
          "vocab_size": 300, "n_positions": 64})");
  Config config;
  config.model.hf_assets_path = folder.path().string();
  config.training.seq_len = 64;
  const ModelSource source = describe_model(config, 256);
  EXPECT_EQ(source.plan.vocab_size, 300);
  EXPECT_TRUE(source.weights.empty()) << "it has none, so it begins anew";
  folder.write("model.safetensors", "x");
  EXPECT_EQ(describe_model(config, 256).weights, folder.path());
}

TEST(ModelSource, RefusesWhatDoesNotFit) {
  const testing::ScratchFolder folder;
  Config config;
  config.model.hf_assets_path = (folder.path() / "no").string();
  EXPECT_NE(
      message_of<Error>([&] { describe_model(config, 256); }).find("a config.json"),
      std::string::npos);
  config = {};
  config.model.vocab_size = 100;
  EXPECT_NE(
      message_of<Error>([&] { describe_model(config, 256); }).find("256 tokens"),
      std::string::npos);
  config = {};
  config.model.name = "gpt3";
  EXPECT_NE(
      message_of<Error>([&] { describe_model(config, 256); }).find("gpt2"),
      std::string::npos);
  config.model.name = "llama";
  config.model.dropout = 0.5;
  EXPECT_NE(
      message_of<Error>([&] { describe_model(config, 256); }).find("model.dropout"),
      std::string::npos);
}

}  // namespace
}  // namespace trireme::train
