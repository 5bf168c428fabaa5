#include "trireme/model/llama_config.h"

#include <gtest/gtest.h>

#include "small_models.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;

TEST(LlamaConfig, AnEmptyFileHasTheDefaults) {
  EXPECT_EQ(parse_llama_config("{}"), LlamaConfig{});
}

TEST(LlamaConfig, ComesBackFromItsText) {
  LlamaConfig config = small_llama();
  config.head_dim = 8;
  config.hidden_act = "gelu";
  config.rope_theta = 500000;
  config.rope_scaling = {"llama3", 8, 1, 4, 16};
  config.attention_bias = config.mlp_bias = config.tie_word_embeddings = true;
  config.attention_dropout = 0.5;
  config.rms_norm_eps = 1e-5;
  EXPECT_EQ(parse_llama_config(to_json(config)), config);
  config.rope_scaling = {.rope_type = "linear", .factor = 2};
  EXPECT_EQ(parse_llama_config(to_json(config)), config);
}

TEST(LlamaConfig, ReadsAnglesInAllThreeForms) {
  for (
      const char* json :
      {R"({"rope_theta": 5000, "rope_scaling": {"type": "linear", "factor": 2}})",
       R"({"rope_theta": 5000, "rope_scaling": {"rope_type": "linear", "factor": 2.0}})",
       R"({"rope_parameters": {"rope_theta": 5000.0, "rope_type": "linear",
            "factor": 2.0}})"}) {
    const LlamaConfig config = parse_llama_config(json);
    EXPECT_EQ(config.rope_theta, 5000);
    EXPECT_EQ(config.rope_scaling, (RopeScaling{.rope_type = "linear", .factor = 2}));
  }
  EXPECT_EQ(
      parse_llama_config(R"({"rope_parameters": {"rope_type": "default"}})"),
      LlamaConfig{});
}

TEST(LlamaConfig, RefusesByKey) {
  const auto refuses = [](const char* json, const char* part) {
    EXPECT_TRUE(
        contains(message_of<InvalidArgument>([&] { parse_llama_config(json); }), part));
  };
  refuses(R"({"hidden_size": 10, "num_attention_heads": 3})", R"("hidden_size" that)");
  refuses(
      R"({"num_attention_heads": 32, "num_key_value_heads": 5})",
      R"("num_key_value_heads" divides, got 32 and 5)");
  refuses(R"({"head_dim": 7})", R"(even "head_dim")");
  refuses(R"({"rms_norm_eps": "x"})", R"("rms_norm_eps")");
  refuses(R"({"rope_theta": 0})", R"("rope_theta")");
  refuses(R"({"rope_scaling": {"type": "linear"}})", R"("factor" to be given)");
  refuses(
      R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
          "high_freq_factor": 1}})",
      R"("high_freq_factor" above)");
  refuses(R"({"rope_scaling": 3})", R"("rope_scaling" to be an object)");
  refuses(R"({"attention_dropout": 2})", R"("attention_dropout")");
}

TEST(LlamaConfig, SaysWhatItCannot) {
  const auto refuses = [](const char* json, const char* part) {
    EXPECT_TRUE(
        contains(message_of<NotSupported>([&] { parse_llama_config(json); }), part));
  };
  refuses(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2}})", R"("yarn")");
  refuses(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})", R"("dynamic")");
  refuses(
      R"({"rope_parameters": {"partial_rotary_factor": 0.5}})",
      "partial_rotary_factor");
  refuses(R"({"hidden_act": "mish"})", R"("hidden_act": expected one of)");
  refuses(R"({"quantization_config": {}})", R"("quantization_config")");
}

TEST(LlamaConfig, FillsWhatIsLeftOut) {
  EXPECT_EQ(LlamaConfig{}.key_value_heads(), 32);
  EXPECT_EQ(LlamaConfig{}.size_of_head(), 128);
  EXPECT_THROW(check(LlamaConfig{.num_key_value_heads = 0}), InvalidArgument);
  EXPECT_THROW(check(LlamaConfig{.head_dim = 0}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::model
