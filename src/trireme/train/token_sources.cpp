#include "trireme/train/token_sources.h"

#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/data/windows.h"
#include "trireme/train/config_origin.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

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
  return data::guess_format(paths.front());
}

data::TokenFile open_files(
    const std::vector<std::string>& names,
    data::TokenFormat format,
    const data::Tokenizer* tokenizer) {
  const std::vector<fs::path> paths(names.begin(), names.end());
  if (format != data::TokenFormat::Text)
    return data::open_tokens(paths, {.format = format});
  if (tokenizer == nullptr)
    throw InvalidArgument(text(
        "[train] wanted a tokenizer for the text ",
        in_quotes(names.front()),
        ", got data.tokenizer none; set it to bytes or to a tokenizer.json"));
  return data::tokenize_file(paths, *tokenizer);
}

void check_length(const data::TokenFile& file, int64_t seq_len) {
  if (data::count_windows(file.size(), seq_len) < 1)
    throw InvalidArgument(text(
        "[train] wanted at least ",
        seq_len + 1,
        " tokens for a window of training.seq_len, got a ",
        file.describe()));
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
        "[train] wanted the text that comes with the program in ",
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
  const fs::path beside = fs::path(config.model.hf_assets_path) / "tokenizer.json";
  std::error_code error;
  if (!config.model.hf_assets_path.empty() && fs::exists(beside, error))
    return about("model.hf_assets_path", [&] { return data::load_tokenizer(beside); });
  const bool text =
      config.data.path.empty() ||
      format_of(config.data.format, config.data.path) == data::TokenFormat::Text;
  return text ? data::byte_tokenizer() : nullptr;
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
    data::TokenFile file =
        open_files(paths, format_of(files.format, paths), tokenizer.get());
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

}  // namespace trireme::train
