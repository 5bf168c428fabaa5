#include "trireme/train/token_sources.h"

#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/data/windows.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

data::TokenFormat format_of(const std::string& word) {
  if (word == "text")
    return data::TokenFormat::Text;
  if (word == "nanogpt")
    return data::TokenFormat::NanoGpt;
  if (word == "llm.c")
    return data::TokenFormat::LlmC;
  if (word == "megatron")
    return data::TokenFormat::Megatron;
  return data::TokenFormat::Auto;
}

data::TokenFile open_files(
    const std::vector<std::string>& names,
    const std::string& format,
    const data::Tokenizer& tokenizer) {
  const std::vector<fs::path> paths(names.begin(), names.end());
  data::TokenFormat kind = format_of(format);
  if (kind == data::TokenFormat::Auto)
    kind = data::guess_format(paths.front());
  return kind == data::TokenFormat::Text
             ? data::tokenize_file(paths, tokenizer)
             : data::open_tokens(paths, {.format = kind});
}

void check_length(const data::TokenFile& file, int64_t seq_len) {
  if (data::count_windows(file.size(), seq_len) < 1)
    throw InvalidArgument(text(
        "[train] wanted at least ", seq_len + 1,
        " tokens for a window of training.seq_len, got a ", file.describe()));
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

std::shared_ptr<const data::Tokenizer> open_tokenizer(const std::string& word) {
  return word == "bytes" ? data::byte_tokenizer() : data::load_tokenizer(word);
}

TokenSources open_sources(const Config& config) {
  std::vector<std::string> training = config.data.path;
  std::vector<std::string> held_out = config.data.held_out;
  if (training.empty()) {
    const fs::path folder = own_text_folder();
    training = {(folder / "training.txt").string()};
    if (held_out.empty())
      held_out = {(folder / "held_out.txt").string()};
  }
  auto tokenizer = open_tokenizer(config.data.tokenizer);
  TokenSources sources{
      .tokenizer = tokenizer,
      .training = open_files(training, config.data.format, *tokenizer),
      .held_out = std::nullopt};
  check_length(sources.training, config.training.seq_len);
  if (!held_out.empty()) {
    sources.held_out = open_files(held_out, config.data.format, *tokenizer);
    check_length(*sources.held_out, config.training.seq_len);
  }
  return sources;
}

}  // namespace trireme::train
