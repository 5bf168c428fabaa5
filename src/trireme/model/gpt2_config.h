// The config.json of a GPT-2.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::model {

/// Keys and defaults are Hugging Face's.
///
///     const Gpt2Config config{.vocab_size = 256, .n_embd = 128, .n_layer = 4, .n_head
///     = 4};
struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  /// Width inside the MLP; none: 4 * n_embd.
  std::optional<int64_t> n_inner{};
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool tie_word_embeddings = true;
  bool operator==(const Gpt2Config&) const = default;
};

/// Reads config.json. InvalidArgument names the key that is wrong; NotSupported the one
/// that asks for what is not there, as cross attention.
Gpt2Config parse_gpt2_config(const std::string& config_json);

/// A config.json that transformers loads as GPT2LMHeadModel.
std::string to_json(const Gpt2Config& config);

/// InvalidArgument or NotSupported unless there can be such a model.
void check(const Gpt2Config& config);

}  // namespace trireme::model
