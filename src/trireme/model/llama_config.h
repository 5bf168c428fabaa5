// The config.json of a Llama.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::model {

/// How angles of positions are stretched for texts longer than those of training.
struct RopeScaling {
  /// "default", "linear" or "llama3".
  std::string rope_type = "default";
  /// Of linear and llama3.
  double factor = 1;
  /// Of llama3: waves shorter than the old length / high_freq_factor stay as they are,
  /// those longer than the old length / low_freq_factor are stretched.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
  bool operator==(const RopeScaling&) const = default;
};

/// Keys and defaults are Hugging Face's.
///
///     const LlamaConfig config{.vocab_size = 256, .hidden_size = 128,
///                              .intermediate_size = 344, .num_hidden_layers = 4,
///                              .num_attention_heads = 8, .num_key_value_heads = 2};
struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  /// None: as many as num_attention_heads.
  std::optional<int64_t> num_key_value_heads{};
  /// None: hidden_size / num_attention_heads.
  std::optional<int64_t> head_dim{};
  std::string hidden_act = "silu";
  int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling{};
  bool attention_bias = false;
  bool mlp_bias = false;
  double attention_dropout = 0;
  bool tie_word_embeddings = false;
  bool operator==(const LlamaConfig&) const = default;

  int64_t key_value_heads() const {
    return num_key_value_heads.value_or(num_attention_heads);
  }
  int64_t size_of_head() const {
    return head_dim.value_or(hidden_size / num_attention_heads);
  }
};

/// Reads config.json, with the angles as "rope_theta" and "rope_scaling" or as
/// "rope_parameters". InvalidArgument names the key that is wrong; NotSupported the one
/// that asks for what is not there, as another kind of scaling.
LlamaConfig parse_llama_config(const std::string& config_json);

/// A config.json that transformers loads as LlamaForCausalLM.
std::string to_json(const LlamaConfig& config);

/// InvalidArgument or NotSupported unless there can be such a model.
void check(const LlamaConfig& config);

}  // namespace trireme::model
