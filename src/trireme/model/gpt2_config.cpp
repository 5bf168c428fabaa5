#include "trireme/model/gpt2_config.h"

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/model/activation.h"
#include "trireme/model/config_object.h"

namespace trireme::model {

Gpt2Config parse_gpt2_config(const std::string& config_json) {
  const ConfigObject file = ConfigObject::parse(config_json);
  for (const char* key : {"add_cross_attention"})
    if (file.flag(key, false))
      file.not_supported(key, "only language models that read and continue text are");
  if (file.has("quantization_config"))
    file.not_supported("quantization_config", "save the weights unquantized");
  Gpt2Config config;
  // transformers takes both names.
  const auto size = [&](const char* key, const char* other, int64_t fallback) {
    return file.whole(file.first_of({key, other}), fallback);
  };
  config.vocab_size = file.whole("vocab_size", config.vocab_size);
  config.n_positions =
      size("n_positions", "max_position_embeddings", config.n_positions);
  config.n_embd = size("n_embd", "hidden_size", config.n_embd);
  config.n_layer = size("n_layer", "num_hidden_layers", config.n_layer);
  config.n_head = size("n_head", "num_attention_heads", config.n_head);
  if (file.has("n_inner"))
    config.n_inner = file.whole("n_inner", 0);
  config.activation_function =
      file.word("activation_function", config.activation_function);
  // 1 would leave nothing.
  constexpr double kMostDropout = 0.999999;
  config.resid_pdrop = file.number("resid_pdrop", config.resid_pdrop, 0, kMostDropout);
  config.embd_pdrop = file.number("embd_pdrop", config.embd_pdrop, 0, kMostDropout);
  config.attn_pdrop = file.number("attn_pdrop", config.attn_pdrop, 0, kMostDropout);
  config.layer_norm_epsilon =
      file.number("layer_norm_epsilon", config.layer_norm_epsilon, 0, 1);
  config.initializer_range =
      file.number("initializer_range", config.initializer_range, 0, 1);
  config.scale_attn_weights =
      file.flag("scale_attn_weights", config.scale_attn_weights);
  config.scale_attn_by_inverse_layer_idx = file.flag(
      "scale_attn_by_inverse_layer_idx", config.scale_attn_by_inverse_layer_idx);
  config.tie_word_embeddings =
      file.flag("tie_word_embeddings", config.tie_word_embeddings);
  check(config);
  return config;
}

std::string to_json(const Gpt2Config& config) {
  nlohmann::ordered_json json{
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"vocab_size", config.vocab_size},
      {"n_positions", config.n_positions},
      {"n_ctx", config.n_positions},
      {"n_embd", config.n_embd},
      {"n_layer", config.n_layer},
      {"n_head", config.n_head},
      {"n_inner", nullptr},
      {"activation_function", config.activation_function},
      {"resid_pdrop", config.resid_pdrop},
      {"embd_pdrop", config.embd_pdrop},
      {"attn_pdrop", config.attn_pdrop},
      {"layer_norm_epsilon", config.layer_norm_epsilon},
      {"initializer_range", config.initializer_range},
      {"scale_attn_weights", config.scale_attn_weights},
      {"scale_attn_by_inverse_layer_idx", config.scale_attn_by_inverse_layer_idx},
      {"tie_word_embeddings", config.tie_word_embeddings}};
  if (config.n_inner)
    json["n_inner"] = *config.n_inner;
  // transformers' own defaults are tokens of the large vocabulary.
  if (config.vocab_size <= 50256) {
    json["bos_token_id"] = nullptr;
    json["eos_token_id"] = nullptr;
  }
  return text(json.dump(2), "\n");
}

void check(const Gpt2Config& config) {
  check_at_least_one("vocab_size", config.vocab_size);
  check_at_least_one("n_positions", config.n_positions);
  check_at_least_one("n_embd", config.n_embd);
  check_at_least_one("n_layer", config.n_layer);
  check_at_least_one("n_head", config.n_head);
  if (config.n_inner)
    check_at_least_one("n_inner", *config.n_inner);
  check_divides("n_embd", config.n_embd, "n_head", config.n_head);
  for (const double p : {config.resid_pdrop, config.embd_pdrop, config.attn_pdrop})
    if (!(p >= 0 && p < 1))
      throw InvalidArgument(text(
          "[model] expected \"resid_pdrop\", \"embd_pdrop\" and \"attn_pdrop\" in [0, "
          "1), "
          "got ",
          p,
          "; give a share below 1"));
  if (!find_activation(config.activation_function))
    throw NotSupported(text(
        "[model] \"activation_function\": expected one of ",
        activation_names(),
        ", got ",
        in_quotes(config.activation_function),
        "; take one of these"));
}

}  // namespace trireme::model
