#include "trireme/train/model_source.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/proc_text.h"
#include "trireme/model/registry.h"
#include "trireme/train/config_file.h"
#include "trireme/train/config_keys.h"
#include "trireme/train/config_origin.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json gpt2_json(const ModelConfig& model) {
  const double dropout = std::max(0.0, model.dropout);
  Json json{
      {"n_embd", model.dim},
      {"n_layer", model.n_layers},
      {"n_head", model.n_heads},
      {"resid_pdrop", dropout},
      {"embd_pdrop", dropout},
      {"attn_pdrop", dropout}};
  if (model.hidden_dim != 0)
    json["n_inner"] = model.hidden_dim;
  return json;
}

Json llama_json(const ModelConfig& model) {
  // Two thirds of 4 dim, as three matrices take what two did, in whole eights.
  const int64_t hidden =
      model.hidden_dim != 0 ? model.hidden_dim : (model.dim * 8 / 3 + 7) / 8 * 8;
  return {
      {"hidden_size", model.dim},
      {"intermediate_size", hidden},
      {"num_hidden_layers", model.n_layers},
      {"num_attention_heads", model.n_heads},
      {"num_key_value_heads",
       model.n_kv_heads == 0 ? model.n_heads : model.n_kv_heads}};
}

// What a model of somebody else's may read.
Json own_json(const ModelConfig& model) {
  return {
      {"dim", model.dim},
      {"n_layers", model.n_layers},
      {"n_heads", model.n_heads},
      {"n_kv_heads", model.n_kv_heads},
      {"hidden_dim", model.hidden_dim},
      {"dropout", std::max(0.0, model.dropout)}};
}

// The config.json of a model that begins from nothing.
std::string new_config(const Config& config, int64_t vocab_size) {
  const ModelConfig& model = config.model;
  if (model.name == "llama" && model.dropout > 0)
    throw InvalidArgument(text(
        "[train] expected model.dropout 0 for llama, which has none, got ",
        model.dropout,
        "; leave it out"));
  Json json = model.name == "gpt2"    ? gpt2_json(model)
              : model.name == "llama" ? llama_json(model)
                                      : own_json(model);
  json["model_type"] = model.name;
  json["vocab_size"] = vocab_size;
  json[model.name == "gpt2" ? "n_positions" : "max_position_embeddings"] =
      config.training.seq_len;
  json["tie_word_embeddings"] = model.tie_embeddings;
  // What transformers takes without them are tokens of other vocabularies.
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  return json.dump();
}

bool has_weights(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "model.safetensors", error) ||
         fs::exists(folder / "model.safetensors.index.json", error);
}

}  // namespace

model::ModelPlan plan_folder(const fs::path& folder) {
  const auto config = read_text_file(folder / "config.json");
  if (!config)
    throw InvalidArgument(text(
        "[train] expected a checkpoint (…/step-N) or a Hugging Face folder, with a "
        "config.json, got ",
        in_quotes(folder.string()),
        " without config.json; correct the path"));
  return model::plan_model(*config);
}

model::BuildOptions build_options(const Config& config) {
  const double dropout = config.model.dropout;
  return {
      .seed = static_cast<uint64_t>(config.training.seed),
      .dtype = config.training.mixed_precision_param == "bfloat16" ? at::kBFloat16
                                                                   : at::kFloat,
      .dropout = dropout < 0 ? std::nullopt : std::optional(dropout),
      .checkpoint = config.activation_checkpoint.mode == "full"};
}

std::string demo_values(const Config& config, const ModelSource& source) {
  if (source.weights.empty())
    return "";
  std::string found;
  for (const Key& key : config_keys()) {
    const std::string name = full_name(key);
    const bool of_the_demo = name == "optimizer.lr" || name == "training.seq_len";
    if (!of_the_demo || config.origins.contains(name) || !is_default(config, key))
      continue;
    found += text(found.empty() ? "" : ", ", name, " ", toml_value(config, key));
    if (name == "training.seq_len" && source.plan.max_positions > 0)
      found += text(" (the model takes up to ", source.plan.max_positions, ")");
  }
  return found;
}

void check_demo_values(const Config& config, const ModelSource& source) {
  const std::string found = demo_values(config, source);
  if (!found.empty())
    throw InvalidArgument(text(
        "[train] expected values for the weights in ",
        in_quotes(source.weights.string()),
        ", got those of the demo, which are for a small new model: ",
        found,
        "; set these keys, the rate to 1e-4, say"));
}

ModelSource describe_model(const Config& config, int64_t vocab_size) {
  const fs::path folder = config.model.hf_assets_path;
  const int64_t wanted =
      config.model.vocab_size != 0 ? config.model.vocab_size : vocab_size;
  if (folder.empty() && wanted == 0)
    throw InvalidArgument(
        "[train] expected model.vocab_size, since there is no tokenizer to tell it, "
        "got "
        "0; "
        "set it above the largest token of the files");
  ModelSource source;
  source.plan =
      folder.empty()
          ? model::plan_model(new_config(config, wanted))
          : about("model.hf_assets_path", [&] { return plan_folder(folder); });
  if (!folder.empty() && has_weights(folder))
    source.weights = folder;
  if (source.plan.vocab_size < vocab_size)
    throw InvalidArgument(text(
        "[train] expected a model for the ",
        vocab_size,
        " tokens of the tokenizer, got ",
        source.plan.vocab_size,
        "; set model.vocab_size or data.tokenizer"));
  if (source.plan.max_positions > 0 &&
      source.plan.max_positions < config.training.seq_len)
    throw InvalidArgument(text(
        "[train] expected training.seq_len to be at most the model's ",
        source.plan.max_positions,
        " positions, got ",
        config.training.seq_len,
        "; lower it"));
  return source;
}

}  // namespace trireme::train
