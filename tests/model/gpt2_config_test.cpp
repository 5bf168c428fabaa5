#include "trireme/model/gpt2_config.h"

#include <gtest/gtest.h>

#include "small_models.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;

TEST(Gpt2Config, AnEmptyFileIsTheSmallestPublished) {
  EXPECT_EQ(parse_gpt2_config("{}"), Gpt2Config{});
}

TEST(Gpt2Config, ComesBackFromItsText) {
  EXPECT_EQ(parse_gpt2_config(to_json(Gpt2Config{})), Gpt2Config{});
  Gpt2Config config = small_gpt2();
  config.n_inner = 50;
  config.activation_function = "relu";
  config.attn_pdrop = 0.25;
  config.layer_norm_epsilon = 1e-6;
  config.initializer_range = 0.03;
  config.scale_attn_weights = false;
  config.scale_attn_by_inverse_layer_idx = true;
  config.tie_word_embeddings = false;
  EXPECT_EQ(parse_gpt2_config(to_json(config)), config);
}

TEST(Gpt2Config, TakesTransformersOtherNames) {
  const Gpt2Config config = parse_gpt2_config(
      R"({"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2,
          "max_position_embeddings": 99})");
  EXPECT_EQ(config.n_embd, 24);
  EXPECT_EQ(config.n_layer, 3);
  EXPECT_EQ(config.n_head, 2);
  EXPECT_EQ(config.n_positions, 99);
}

TEST(Gpt2Config, RefusesByKey) {
  const auto refuses = [](const char* json, const char* part) {
    EXPECT_TRUE(
        contains(message_of<InvalidArgument>([&] { parse_gpt2_config(json); }), part));
  };
  refuses(
      R"({"n_embd": 10, "n_head": 3})",
      R"("n_embd" that "n_head" divides, got 10 and 3)");
  refuses(R"({"n_layer": 0})", R"("n_layer")");
  refuses(R"({"n_layer": "12"})", R"("n_layer")");
  refuses(R"({"attn_pdrop": 1})", R"("attn_pdrop")");
  refuses(R"({"vocab_size": -3})", R"("vocab_size")");
  refuses(R"({"n_inner": 0})", R"("n_inner")");
  refuses(R"({"tie_word_embeddings": 1})", R"("tie_word_embeddings")");
  refuses("[]", "a JSON object");
}

TEST(Gpt2Config, SaysWhatItCannot) {
  const auto refuses = [](const char* json, const char* part) {
    EXPECT_TRUE(
        contains(message_of<NotSupported>([&] { parse_gpt2_config(json); }), part));
  };
  refuses(
      R"({"activation_function": "mish"})",
      R"("activation_function": expected one of)");
  refuses(R"({"add_cross_attention": true})", R"("add_cross_attention")");
  refuses(R"({"quantization_config": {}})", R"("quantization_config")");
}

TEST(Gpt2Config, ChecksWhatAProgramMade) {
  EXPECT_THROW(check(Gpt2Config{.n_positions = 0}), InvalidArgument);
  EXPECT_THROW(check(Gpt2Config{.n_inner = -1}), InvalidArgument);
  EXPECT_THROW(check(Gpt2Config{.embd_pdrop = -0.1}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::model
