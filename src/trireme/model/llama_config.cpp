#include "trireme/model/llama_config.h"

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/model/activation.h"
#include "trireme/model/config_object.h"

namespace trireme::model {
namespace {

constexpr double kLargest = 1e12;

RopeScaling read_scaling(const ConfigObject& object, int64_t max_positions) {
  RopeScaling scaling;
  const std::string kind = object.first_of({"rope_type", "type"});
  scaling.rope_type = object.word(kind, scaling.rope_type);
  if (scaling.rope_type == "default")
    return scaling;
  if (scaling.rope_type != "linear" && scaling.rope_type != "llama3")
    object.not_supported(kind, "there are default, linear and llama3");
  const auto needed = [&](const char* key) {
    if (!object.has(key))
      object.refuse(key, text("given for \"", scaling.rope_type, "\""));
    return object.number(key, 0, 1e-6, kLargest);
  };
  scaling.factor = needed("factor");
  if (scaling.rope_type == "llama3") {
    scaling.low_freq_factor = needed("low_freq_factor");
    scaling.high_freq_factor = needed("high_freq_factor");
    scaling.original_max_position_embeddings =
        object.whole("original_max_position_embeddings", max_positions);
  }
  return scaling;
}

void read_rope(const ConfigObject& file, LlamaConfig& config) {
  config.rope_theta = file.number("rope_theta", config.rope_theta, 1e-6, kLargest);
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (const auto object = file.object(key)) {
      config.rope_theta =
          object->number("rope_theta", config.rope_theta, 1e-6, kLargest);
      if (object->number("partial_rotary_factor", 1, 0, 1) != 1)
        object->not_supported("partial_rotary_factor", "whole heads are turned");
      config.rope_scaling = read_scaling(*object, config.max_position_embeddings);
      return;
    }
}

void read_sizes(const ConfigObject& file, LlamaConfig& config) {
  config.vocab_size = file.whole("vocab_size", config.vocab_size);
  config.hidden_size = file.whole("hidden_size", config.hidden_size);
  config.intermediate_size = file.whole("intermediate_size", config.intermediate_size);
  config.num_hidden_layers = file.whole("num_hidden_layers", config.num_hidden_layers);
  config.num_attention_heads =
      file.whole("num_attention_heads", config.num_attention_heads);
  if (file.has("num_key_value_heads"))
    config.num_key_value_heads = file.whole("num_key_value_heads", 0);
  if (file.has("head_dim"))
    config.head_dim = file.whole("head_dim", 0);
  config.max_position_embeddings =
      file.whole("max_position_embeddings", config.max_position_embeddings);
}

nlohmann::ordered_json scaling_json(const LlamaConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.rope_type == "default")
    return nullptr;
  nlohmann::ordered_json json{
      {"rope_type", scaling.rope_type},
      {"rope_theta", config.rope_theta},
      {"factor", scaling.factor}};
  if (scaling.rope_type == "llama3") {
    json["low_freq_factor"] = scaling.low_freq_factor;
    json["high_freq_factor"] = scaling.high_freq_factor;
    json["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  return json;
}

void check_sizes(const LlamaConfig& config) {
  const int64_t heads = config.num_attention_heads;
  check_at_least_one("vocab_size", config.vocab_size);
  check_at_least_one("hidden_size", config.hidden_size);
  check_at_least_one("intermediate_size", config.intermediate_size);
  check_at_least_one("num_hidden_layers", config.num_hidden_layers);
  check_at_least_one("num_attention_heads", heads);
  check_at_least_one("num_key_value_heads", config.key_value_heads());
  check_at_least_one("max_position_embeddings", config.max_position_embeddings);
  if (!config.head_dim)
    check_divides("hidden_size", config.hidden_size, "num_attention_heads", heads);
  check_at_least_one("head_dim", config.size_of_head());
  check_divides(
      "num_attention_heads", heads, "num_key_value_heads", config.key_value_heads());
  if (config.size_of_head() % 2 != 0)
    throw InvalidArgument(text(
        "[model] expected an even \"head_dim\", whose halves are turned, got ",
        config.size_of_head(),
        "; change \"head_dim\" or \"num_attention_heads\""));
}

}  // namespace

LlamaConfig parse_llama_config(const std::string& config_json) {
  const ConfigObject file = ConfigObject::parse(config_json);
  if (file.has("quantization_config"))
    file.not_supported("quantization_config", "save the weights unquantized");
  LlamaConfig config;
  read_sizes(file, config);
  read_rope(file, config);
  config.hidden_act = file.word("hidden_act", config.hidden_act);
  config.initializer_range =
      file.number("initializer_range", config.initializer_range, 0, 1);
  config.rms_norm_eps = file.number("rms_norm_eps", config.rms_norm_eps, 0, 1);
  config.attention_bias = file.flag("attention_bias", config.attention_bias);
  config.mlp_bias = file.flag("mlp_bias", config.mlp_bias);
  config.attention_dropout =
      file.number("attention_dropout", config.attention_dropout, 0, 0.999999);
  config.tie_word_embeddings =
      file.flag("tie_word_embeddings", config.tie_word_embeddings);
  check(config);
  return config;
}

std::string to_json(const LlamaConfig& config) {
  nlohmann::ordered_json json{
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.key_value_heads()},
      {"head_dim", config.size_of_head()},
      {"hidden_act", config.hidden_act},
      {"max_position_embeddings", config.max_position_embeddings},
      {"initializer_range", config.initializer_range},
      {"rms_norm_eps", config.rms_norm_eps},
      {"rope_theta", config.rope_theta},
      {"rope_scaling", scaling_json(config)},
      {"attention_bias", config.attention_bias},
      {"mlp_bias", config.mlp_bias},
      {"attention_dropout", config.attention_dropout},
      {"tie_word_embeddings", config.tie_word_embeddings}};
  return text(json.dump(2), "\n");
}

void check(const LlamaConfig& config) {
  check_sizes(config);
  if (!(config.attention_dropout >= 0 && config.attention_dropout < 1))
    throw InvalidArgument(text(
        "[model] expected \"attention_dropout\" in [0, 1), got ",
        config.attention_dropout,
        "; give a share below 1"));
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.rope_type == "llama3" &&
      scaling.high_freq_factor <= scaling.low_freq_factor)
    throw InvalidArgument(text(
        "[model] expected \"high_freq_factor\" above \"low_freq_factor\", got ",
        scaling.high_freq_factor,
        " and ",
        scaling.low_freq_factor,
        "; raise the one or lower the other"));
  if (!find_activation(config.hidden_act))
    throw NotSupported(text(
        "[model] \"hidden_act\": expected one of ",
        activation_names(),
        ", got ",
        in_quotes(config.hidden_act),
        "; take one of these"));
}

}  // namespace trireme::model
