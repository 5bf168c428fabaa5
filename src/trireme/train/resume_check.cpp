#include "trireme/train/resume_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/ckpt/checkpoint.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/train/optimizer.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// What a key of config.json is called in a job that has no such file.
const std::map<std::string_view, const char*>& names_in_a_job() {
  static const std::map<std::string_view, const char*> all{
      {"model_type", "model.name"},
      {"vocab_size", "model.vocab_size"},
      {"tie_word_embeddings", "model.tie_embeddings"},
      {"n_embd", "model.dim"},
      {"hidden_size", "model.dim"},
      {"dim", "model.dim"},
      {"n_layer", "model.n_layers"},
      {"num_hidden_layers", "model.n_layers"},
      {"n_layers", "model.n_layers"},
      {"n_head", "model.n_heads"},
      {"num_attention_heads", "model.n_heads"},
      {"n_heads", "model.n_heads"},
      {"num_key_value_heads", "model.n_kv_heads"},
      {"n_kv_heads", "model.n_kv_heads"},
      {"n_inner", "model.hidden_dim"},
      {"intermediate_size", "model.hidden_dim"},
      {"hidden_dim", "model.hidden_dim"},
      {"n_positions", "training.seq_len"},
      {"n_ctx", "training.seq_len"},
      {"max_position_embeddings", "training.seq_len"}};
  return all;
}

// Whether the key says nothing about what trained weights compute: noise and precision,
// which a job may change, first values, and notes for other programs.
bool says_nothing(std::string_view key) {
  constexpr std::array<std::string_view, 5> kNotes = {
      "architectures",
      "initializer_range",
      "transformers_version",
      "use_cache",
      "_name_or_path"};
  return key.find("drop") != key.npos || key.find("dtype") != key.npos ||
         key.ends_with("_token_id") ||
         std::find(kNotes.begin(), kNotes.end(), key) != kNotes.end();
}

std::string shown_key(const Config& config, const std::string& key, const Json& value) {
  if (!config.model.hf_assets_path.empty())
    return text(key, " ", value.dump(), ", as model.hf_assets_path has it,");
  const auto found = names_in_a_job().find(key);
  return text(found == names_in_a_job().end() ? key : found->second, " ", value.dump());
}

void check_model_of(
    const fs::path& checkpoint,
    const Json& saved,
    const Json& wanted,
    const Config& config) {
  // The type first: of another one all keys are others.
  std::vector<std::string> keys{"model_type"};
  for (const Json* one : {&wanted, &saved})
    for (const auto& item : one->items())
      keys.push_back(item.key());
  for (const std::string& key : keys) {
    // null is as good as nothing in these files.
    const Json here = wanted.value(key, Json()), there = saved.value(key, Json());
    if (here != there && !says_nothing(key))
      refuse_checkpoint(checkpoint, shown_key(config, key, here), there.dump());
  }
}

std::string listed(const std::set<std::string>& kinds) {
  std::string out;
  for (const std::string& kind : kinds)
    out += text(out.empty() ? "" : ", ", kind);
  return out.empty() ? "none" : out;
}

// Masters and counts of steps come and go with the precision, not with the optimizer.
void check_optimizer_of(const ckpt::Checkpoint& checkpoint, const Config& config) {
  std::set<std::string> saved;
  for (const std::string& name : checkpoint.optimizer().names())
    saved.insert(name.substr(0, name.find('.')));
  saved.erase("master");
  saved.erase("step");
  const OptimizerConfig& optimizer = config.optimizer;
  const auto kinds = state_kinds(optimizer);
  const std::set<std::string> wanted(kinds.begin(), kinds.end());
  if (saved == wanted)
    return;
  refuse_checkpoint(
      checkpoint.folder(),
      text(
          "the states of optimizer.name ",
          optimizer.name,
          optimizer.name == "SGD"
              ? text(" with optimizer.momentum ", optimizer.momentum)
              : "",
          " (",
          listed(wanted),
          ")"),
      text(listed(saved), saved.empty() ? "" : ", which nobody would take"));
}

}  // namespace

void refuse_checkpoint(
    const fs::path& checkpoint, const std::string& wanted, const std::string& got) {
  throw InvalidArgument(text(
      "[train] expected ",
      wanted,
      " in the checkpoint ",
      in_quotes(checkpoint.string()),
      ", got ",
      got,
      "; go on with its own config, or begin anew with "
      "--checkpoint.resume never and --model.hf_assets_path for its weights"));
}

void check_resume(
    const fs::path& checkpoint, const model::ModelPlan& plan, const Config& config) {
  const ckpt::Checkpoint opened(checkpoint);
  const Json saved = Json::parse(opened.text("config.json"), nullptr, false);
  if (!saved.is_object())
    refuse_checkpoint(checkpoint, "a config.json that is a JSON object", "none");
  check_model_of(checkpoint, saved, Json::parse(plan.config_json), config);
  check_optimizer_of(opened, config);
}

}  // namespace trireme::train
