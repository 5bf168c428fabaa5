#include "trireme/train/config_keys.h"

#include <algorithm>
#include <cmath>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/nearest.h"
#include "trireme/data/utf8.h"

namespace trireme::train {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// The slot of a member of a section, for the table.
#define SLOT(section, member) \
  [](Config& config) -> Slot { return &config.section.member; }

std::vector<Key> make_keys() {
  return {
      {"job",
       "dump_folder",
       "The folder of the run; empty: runs/N, the next free N",
       SLOT(job, dump_folder)},

      {"model",
       "name",
       "gpt2, llama, recommender or a registered model",
       SLOT(model, name)},
      {"model",
       "hf_assets_path",
       "A Hugging Face folder or a checkpoint: its config.json and weights are used",
       SLOT(model, hf_assets_path)},
      {"model", "dim", "Width; of a recommender's rows", SLOT(model, dim), 1},
      {"model", "n_layers", "Blocks", SLOT(model, n_layers), 1},
      {"model", "n_heads", "Attention heads", SLOT(model, n_heads), 1},
      {"model",
       "n_kv_heads",
       "Of keys and values, llama; 0: as n_heads",
       SLOT(model, n_kv_heads)},
      {"model",
       "hidden_dim",
       "Width of the feed-forward part; 0: 4 (gpt2), 8/3 or (recommender) 1 dim",
       SLOT(model, hidden_dim)},
      {"model",
       "vocab_size",
       "0: the tokenizer's; of a recommender, 200 users and 200 items",
       SLOT(model, vocab_size)},
      {"model",
       "dropout",
       "Probability, gpt2; -1: as config.json says, or none",
       SLOT(model, dropout),
       -1,
       0.99},
      {"model",
       "tie_embeddings",
       "The output layer is the embedding",
       SLOT(model, tie_embeddings)},

      {"data",
       "path",
       "Files to train on; empty: the text that comes with the program",
       SLOT(data, path)},
      {"data",
       "held_out",
       "Files to evaluate on; empty: none, or that of the program",
       SLOT(data, held_out)},
      {"data",
       "format",
       "Of the files",
       SLOT(data, format),
       0,
       kNoLimit,
       {"auto", "text", "nanogpt", "llm.c", "megatron"}},
      {"data",
       "tokenizer",
       "bytes, none, or a tokenizer.json; auto: the model's, or bytes for text",
       SLOT(data, tokenizer)},
      {"data",
       "shuffle",
       "A new order every epoch; false: consecutive windows",
       SLOT(data, shuffle)},
      {"data",
       "prefetch",
       "Batches that are made ahead",
       SLOT(data, prefetch),
       1,
       1024},

      {"training", "steps", "Steps in all", SLOT(training, steps), 1},
      {"training", "seq_len", "Tokens of a sample", SLOT(training, seq_len), 1},
      {"training",
       "global_batch_size",
       "Samples of a step, over all ranks",
       SLOT(training, global_batch_size),
       1},
      {"training",
       "local_batch_size",
       "Samples that a pipeline takes at once; less than its share accumulates; 0: all",
       SLOT(training, local_batch_size)},
      {"training",
       "max_norm",
       "Limit of the gradients' norm; 0: none",
       SLOT(training, max_norm)},
      {"training",
       "mixed_precision_param",
       "What to compute in; masters are float32",
       SLOT(training, mixed_precision_param),
       0,
       kNoLimit,
       {"float32", "bfloat16"}},
      {"training",
       "on_non_finite",
       "A step whose loss or gradients are not finite trains nothing: stop, or skip it",
       SLOT(training, on_non_finite),
       0,
       kNoLimit,
       {"stop", "skip"}},
      {"training", "seed", "Of weights, order and dropout", SLOT(training, seed)},

      {"parallelism",
       "ranks",
       "Processes to start, of a recommender its trainers; 0: as many as fit this "
       "machine",
       SLOT(parallelism, ranks),
       0,
       1 << 20},
      {"parallelism",
       "pipeline_parallel_degree",
       "Ranks of a pipeline; 0: fitting",
       SLOT(parallelism, pipeline_parallel_degree),
       0,
       1 << 20},
      {"parallelism",
       "data_parallel_replicate_degree",
       "Pipelines; 0: fitting",
       SLOT(parallelism, data_parallel_replicate_degree),
       0,
       1 << 20},
      {"parallelism",
       "pipeline_parallel_schedule",
       "A name of `trireme schedule list`; auto: measure, then choose",
       SLOT(parallelism, pipeline_parallel_schedule)},
      {"parallelism",
       "pipeline_parallel_schedule_csv",
       "A schedule of one's own",
       SLOT(parallelism, pipeline_parallel_schedule_csv)},
      {"parallelism",
       "pipeline_parallel_microbatch_size",
       "Samples of a microbatch; 0: four microbatches a rank, as far as samples go",
       SLOT(parallelism, pipeline_parallel_microbatch_size)},
      {"parallelism",
       "pipeline_parallel_stages_per_rank",
       "0: as the schedule wants",
       SLOT(parallelism, pipeline_parallel_stages_per_rank),
       0,
       64},
      {"parallelism",
       "embedding_servers",
       "Further processes, which share a recommender's table; 0: one",
       SLOT(parallelism, embedding_servers),
       0,
       1024},

      {"optimizer", "name", "", SLOT(optimizer, name), 0, kNoLimit, {"AdamW", "SGD"}},
      {"optimizer", "lr", "The highest learning rate", SLOT(optimizer, lr)},
      {"optimizer", "beta1", "AdamW", SLOT(optimizer, beta1), 0, 0.999999},
      {"optimizer", "beta2", "AdamW", SLOT(optimizer, beta2), 0, 0.999999},
      {"optimizer", "eps", "AdamW", SLOT(optimizer, eps)},
      {"optimizer",
       "weight_decay",
       "AdamW: decoupled; SGD: added to gradients",
       SLOT(optimizer, weight_decay)},
      {"optimizer", "momentum", "SGD", SLOT(optimizer, momentum), 0, 1},

      {"lr_scheduler",
       "warmup_steps",
       "Steps up to the highest rate",
       SLOT(lr_scheduler, warmup_steps)},
      {"lr_scheduler",
       "total_steps",
       "Steps until the rate has fallen; 0: training.steps",
       SLOT(lr_scheduler, total_steps)},
      {"lr_scheduler",
       "decay_type",
       "How it falls",
       SLOT(lr_scheduler, decay_type),
       0,
       kNoLimit,
       {"cosine", "linear", "constant"}},
      {"lr_scheduler",
       "decay_ratio",
       "The part of all these steps in which it falls",
       SLOT(lr_scheduler, decay_ratio),
       0,
       1},
      {"lr_scheduler",
       "min_lr_factor",
       "What it falls to, of the highest",
       SLOT(lr_scheduler, min_lr_factor),
       0,
       1},

      {"checkpoint", "enable", "Write checkpoints", SLOT(checkpoint, enable)},
      {"checkpoint", "folder", "In the run's folder", SLOT(checkpoint, folder)},
      {"checkpoint",
       "interval",
       "Steps between two; 0: at the end alone",
       SLOT(checkpoint, interval)},
      {"checkpoint",
       "keep_latest_k",
       "Older ones are removed; 0: keep all",
       SLOT(checkpoint, keep_latest_k)},
      {"checkpoint",
       "resume",
       "never; auto: the run's latest, if there is one; or a folder step-N",
       SLOT(checkpoint, resume)},

      {"activation_checkpoint",
       "mode",
       "full: keep block inputs only, compute again",
       SLOT(activation_checkpoint, mode),
       0,
       kNoLimit,
       {"none", "full"}},

      {"validation",
       "freq",
       "Steps between two evaluations; 0: at the end alone",
       SLOT(validation, freq)},
      {"validation", "steps", "Batches of an evaluation", SLOT(validation, steps), 1},

      {"metrics", "log_freq", "Steps between two lines", SLOT(metrics, log_freq), 1},
      {"metrics",
       "progress",
       "bar on a terminal, lines elsewhere, or none",
       SLOT(metrics, progress),
       0,
       kNoLimit,
       {"auto", "bar", "lines", "none"}},

      {"profiling",
       "profile_freq",
       "Steps between two traces; 0: of the last one alone",
       SLOT(profiling, profile_freq)},
  };
}

#undef SLOT

std::string shown(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value))
    return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value))
    return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value))
    return text(*number);
  if (const auto* word = std::get_if<std::string>(&value))
    return in_quotes(data::as_utf8(*word));
  return "a list";
}

bool in_range(const Key& key, double number) {
#ifdef TRIREME_PLANTED_BUG  // the fuzzer must find it
  return true;
#endif
  return std::isfinite(number) && number >= key.least && number <= key.most;
}

// Puts the value into the slot if it has its type and is within the key's limits, and
// says whether it did.
bool put(const Key&, const Value& value, bool* slot) {
  const auto* flag = std::get_if<bool>(&value);
  if (flag != nullptr)
    *slot = *flag;
  return flag != nullptr;
}
bool put(const Key& key, const Value& value, int64_t* slot) {
  const auto* whole = std::get_if<int64_t>(&value);
  if (whole == nullptr || !in_range(key, static_cast<double>(*whole)))
    return false;
  *slot = *whole;
  return true;
}
bool put(const Key& key, const Value& value, double* slot) {
  const auto* whole = std::get_if<int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  if (whole == nullptr && number == nullptr)
    return false;
  const double got = whole != nullptr ? static_cast<double>(*whole) : *number;
  if (!in_range(key, got))
    return false;
  *slot = got;
  return true;
}
// TOML has no other texts, and a config must come back from its own file.
bool is_text(const std::string& word) {
  return data::find_invalid(word) == word.size() && word.find('\0') == word.npos;
}
bool put(const Key& key, const Value& value, std::string* slot) {
  const auto* word = std::get_if<std::string>(&value);
  if (word == nullptr || !is_text(*word))
    return false;
  if (!key.words.empty() &&
      std::find(key.words.begin(), key.words.end(), *word) == key.words.end())
    return false;
  *slot = *word;
  return true;
}
bool put(const Key&, const Value& value, std::vector<std::string>* slot) {
  std::vector<std::string> items;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    items = *list;
  else if (const auto* word = std::get_if<std::string>(&value))
    items = {*word};
  else
    return false;
  if (!std::all_of(items.begin(), items.end(), is_text))
    return false;
  *slot = std::move(items);
  return true;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Key& key : config_keys())
    if (names.empty() || names.back() != key.section)
      names.emplace_back(key.section);
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names)
    out += text(out.empty() ? "" : ", ", name);
  return out;
}

/// Keys that nobody reads when something holds, which `why` names.
struct IgnoredKeys {
  std::vector<std::string_view> keys;
  bool (*holds)(const Config& config);
  const char* why;
};

const std::vector<IgnoredKeys>& ignored_keys() {
  static const std::vector<IgnoredKeys> all{
      {{"parallelism.embedding_servers"},
       [](const Config& config) { return !is_recommender(config); },
       "a model.name other than recommender, which alone has servers"},
      {{"model.n_layers",
        "model.n_heads",
        "model.n_kv_heads",
        "model.dropout",
        "model.tie_embeddings"},
       is_recommender,
       "model.name recommender, which is a table and two layers"},
      {{"data.path",
        "data.held_out",
        "data.format",
        "data.tokenizer",
        "data.shuffle",
        "data.prefetch"},
       is_recommender,
       "model.name recommender, which learns from generated clicks"},
      {{"training.seq_len",
        "training.local_batch_size",
        "training.max_norm",
        "training.mixed_precision_param",
        "training.on_non_finite",
        "activation_checkpoint.mode"},
       is_recommender,
       "model.name recommender, which trains on single clicks, in float32, without "
       "clipping, and stops where a loss is not finite"},
      {{"parallelism.pipeline_parallel_degree",
        "parallelism.data_parallel_replicate_degree",
        "parallelism.pipeline_parallel_schedule",
        "parallelism.pipeline_parallel_schedule_csv",
        "parallelism.pipeline_parallel_microbatch_size",
        "parallelism.pipeline_parallel_stages_per_rank",
        "profiling.profile_freq"},
       is_recommender,
       "model.name recommender, which has no pipeline: parallelism.ranks says how many "
       "trainers there are"},
      {{"checkpoint.enable",
        "checkpoint.folder",
        "checkpoint.interval",
        "checkpoint.keep_latest_k",
        "checkpoint.resume"},
       is_recommender,
       "model.name recommender, which writes its weights once, at its end, and cannot "
       "go on from them"},
      {{"model.name",
        "model.dim",
        "model.n_layers",
        "model.n_heads",
        "model.n_kv_heads",
        "model.hidden_dim",
        "model.vocab_size",
        "model.tie_embeddings"},
       [](const Config& config) { return !config.model.hf_assets_path.empty(); },
       "model.hf_assets_path, whose config.json says it"},
      {{"model.n_kv_heads"},
       [](const Config& config) { return config.model.name == "gpt2"; },
       "model.name gpt2, which has as many as model.n_heads"},
      {{"optimizer.momentum"},
       [](const Config& config) { return config.optimizer.name == "AdamW"; },
       "optimizer.name AdamW, which has beta1 for it"},
      {{"optimizer.beta1", "optimizer.beta2", "optimizer.eps"},
       [](const Config& config) { return config.optimizer.name == "SGD"; },
       "optimizer.name SGD, which has none"},
      {{"lr_scheduler.total_steps",
        "lr_scheduler.decay_ratio",
        "lr_scheduler.min_lr_factor"},
       [](const Config& config) {
         return config.lr_scheduler.decay_type == "constant";
       },
       "lr_scheduler.decay_type constant, which does not fall"},
      {{"checkpoint.interval", "checkpoint.keep_latest_k"},
       [](const Config& config) { return !config.checkpoint.enable; },
       "checkpoint.enable false, which writes none"},
      // Without data.path there is the text that comes with the program, both parts.
      {{"validation.freq", "validation.steps"},
       [](const Config& config) {
         return !config.data.path.empty() && config.data.held_out.empty();
       },
       "data.path without data.held_out, which leaves nothing to evaluate on"},
      {{"parallelism.pipeline_parallel_schedule"},
       [](const Config& config) {
         return config.parallelism.pipeline_parallel_degree == 1;
       },
       "parallelism.pipeline_parallel_degree 1, which has nobody to take turns with"}};
  return all;
}

[[noreturn]] void refuse_section(std::string_view section, const std::string& origin) {
  throw InvalidArgument(text(
      "[train] ",
      origin,
      ": expected a section of ",
      joined(section_names()),
      ", got ",
      in_quotes(section),
      "; take one of these"));
}

}  // namespace

const std::vector<Key>& config_keys() {
  static const std::vector<Key> keys = make_keys();
  return keys;
}

std::string full_name(const Key& key) {
  return text(key.section, ".", key.name);
}

std::string why_ignored(const Config& config, const Key& key) {
  for (const IgnoredKeys& some : ignored_keys())
    if (some.holds(config) &&
        std::find(some.keys.begin(), some.keys.end(), full_name(key)) !=
            some.keys.end())
      return some.why;
  return "";
}

std::string allowed_values(const Key& key) {
  if (!key.words.empty()) {
    std::vector<std::string> words(key.words.begin(), key.words.end());
    return text("one of ", joined(words));
  }
  Config config;
  const Slot slot = key.slot(config);
  if (std::holds_alternative<bool*>(slot))
    return "true or false";
  if (std::holds_alternative<std::string*>(slot))
    return "a text in UTF-8";
  if (std::holds_alternative<std::vector<std::string>*>(slot))
    return "a list of texts in UTF-8";
  const std::string kind =
      std::holds_alternative<int64_t*>(slot) ? "a whole number" : "a number";
  const auto shown = [&](double limit) {
    return limit == std::floor(limit) ? std::to_string(std::llround(limit))
                                      : text(limit);
  };
  if (std::isfinite(key.most))
    return text(kind, " from ", shown(key.least), " to ", shown(key.most));
  return text(kind, " of at least ", shown(key.least));
}

void check_section(std::string_view section, const std::string& origin) {
  const auto names = section_names();
  if (std::find(names.begin(), names.end(), section) == names.end())
    refuse_section(section, origin);
}

void refuse_value(const Key& key, const std::string& got, const std::string& origin) {
  throw InvalidArgument(text(
      "[train] ",
      origin,
      ": expected ",
      full_name(key),
      " to be ",
      allowed_values(key),
      ", got ",
      got,
      "; correct it"));
}

void assign(
    Config& config, const Key& key, const Value& value, const std::string& origin) {
  const bool done =
      std::visit([&](auto* slot) { return put(key, value, slot); }, key.slot(config));
  if (!done)
    refuse_value(key, shown(value), origin);
  config.origins[full_name(key)] = origin;
}

const Key& find_key(
    std::string_view section, std::string_view name, const std::string& origin) {
  std::vector<std::string> names;
  std::vector<std::string> all;
  for (const Key& key : config_keys()) {
    if (key.section == section && key.name == name)
      return key;
    all.push_back(full_name(key));
    if (key.section == section)
      names.emplace_back(key.name);
  }
  const std::string got = in_quotes(text(section, ".", name));
  if (names.empty() && nearest(text(section, ".", name), all).empty())
    refuse_section(section, origin);
  const std::string close = names.empty() ? "" : nearest(name, names);
  const std::string best = close.empty() ? nearest(text(section, ".", name), all)
                                         : text(section, ".", close);
  throw InvalidArgument(text(
      "[train] ",
      origin,
      ": expected a key of a training job, got ",
      got,
      best.empty() ? text("; ", section, " has ", joined(names))
                   : text("; did you mean ", best, "?")));
}

}  // namespace trireme::train
