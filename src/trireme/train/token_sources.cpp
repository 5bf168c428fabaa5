#include "trireme/train/token_sources.h"

#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/data/windows.h"
#include "trireme/train/config_origin.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

/// Auto for files of tokens whose format each tells itself.
data::TokenFormat format_of(
    const std::string& word, const std::vector<std::string>& paths) {
  if (word == "text")
    return data::TokenFormat::Text;
  if (word == "nanogpt")
    return data::TokenFormat::NanoGpt;
  if (word == "llm.c")
    return data::TokenFormat::LlmC;
  if (word == "megatron")
    return data::TokenFormat::Megatron;
  const auto is_text = [](const std::string& path) {
    return data::guess_format(path) == data::TokenFormat::Text;
  };
  const bool text_first = is_text(paths.front());
  for (const std::string& path : paths)
    if (is_text(path) != text_first)
      throw InvalidArgument(text(
          "[train] expected files of text or files of tokens, got both: ",
          in_quotes(paths.front()),
          " and ",
          in_quotes(path),
          "; say which they are with data.format"));
  return text_first ? data::TokenFormat::Text : data::TokenFormat::Auto;
}

data::TokenFile open_files(
    const std::vector<std::string>& names,
    const std::string& word,
    const data::Tokenizer* tokenizer) {
  const std::vector<fs::path> paths(names.begin(), names.end());
  const data::TokenFormat format = format_of(word, names);
  if (format != data::TokenFormat::Text)
    return data::open_tokens(paths, {.format = format});
  if (tokenizer == nullptr)
    throw InvalidArgument(text(
        "[train] expected a tokenizer for the text ",
        in_quotes(names.front()),
        ", got data.tokenizer none; set it to bytes or to a tokenizer.json"));
  if (word == "auto")
    for (const fs::path& path : paths)
      data::check_text(path);
  return data::tokenize_file(paths, *tokenizer);
}

void check_length(const data::TokenFile& file, int64_t seq_len) {
  if (data::count_windows(file.size(), seq_len) < 1)
    throw InvalidArgument(text(
        "[train] expected at least ",
        seq_len + 1,
        " tokens for a window of training.seq_len, got a ",
        file.describe(),
        "; give more text or a smaller training.seq_len"));
}

}  // namespace

fs::path own_text_folder() {
  const Environment env = Environment::of_process();
  const auto named = env.find("TRIREME_TEXT");
  std::error_code error;
  const fs::path folder =
      named ? fs::path(*named)
            : fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() /
                  "share" / "trireme" / "text";
  if (!fs::is_regular_file(folder / "training.txt", error))
    throw NotSupported(text(
        "[train] expected the text that comes with the program in ",
        in_quotes(folder.string()),
        ", got nothing there; name files with --data.path, or set TRIREME_TEXT"));
  return folder;
}

int64_t vocabulary_of(const data::Tokenizer* tokenizer) {
  return tokenizer == nullptr ? 0 : tokenizer->vocab_size();
}

std::shared_ptr<const data::Tokenizer> open_tokenizer(const Config& config) {
  const std::string& word = config.data.tokenizer;
  if (word == "none")
    return nullptr;
  if (word == "bytes")
    return data::byte_tokenizer();
  if (word != "auto")
    return about("data.tokenizer", [&] { return data::load_tokenizer(word); });
  const bool text = config.data.path.empty() ||
                    about("data.path", [&] {
                      return format_of(config.data.format, config.data.path);
                    }) == data::TokenFormat::Text;
  const fs::path beside = fs::path(config.model.hf_assets_path) / "tokenizer.json";
  std::error_code error;
  if (config.model.hf_assets_path.empty() || !fs::exists(beside, error))
    return text ? data::byte_tokenizer() : nullptr;
  try {
    return about("model.hf_assets_path", [&] { return data::load_tokenizer(beside); });
  } catch (const NotSupported&) {
    // Its tokens were made by another program, which is what the error advises.
    if (text)
      throw;
    return nullptr;
  }
}

TokenSources open_sources(const Config& config) {
  DataConfig files = config.data;
  if (files.path.empty()) {
    const fs::path folder = own_text_folder();
    files.path = {(folder / "training.txt").string()};
    if (files.held_out.empty())
      files.held_out = {(folder / "held_out.txt").string()};
  }
  auto tokenizer = open_tokenizer(config);
  const auto open = [&](const std::vector<std::string>& paths) {
    data::TokenFile file = open_files(paths, files.format, tokenizer.get());
    check_length(file, config.training.seq_len);
    return file;
  };
  TokenSources sources{
      .tokenizer = tokenizer,
      .training = about("data.path", [&] { return open(files.path); }),
      .held_out = std::nullopt};
  if (!files.held_out.empty())
    sources.held_out = about("data.held_out", [&] { return open(files.held_out); });
  return sources;
}

data::TokenLoaderOptions loader_options(
    const Config& config, int rank, int ranks, int64_t vocab_size) {
  return {
      .sequence_length = config.training.seq_len,
      .global_batch = config.training.global_batch_size,
      .rank = rank,
      .ranks = ranks,
      .shuffle = config.data.shuffle,
      .seed = static_cast<uint64_t>(config.training.seed),
      .vocab_size = vocab_size,
      .prefetch = static_cast<int>(config.data.prefetch)};
}

}  // namespace trireme::train
