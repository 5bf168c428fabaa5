// Where a job's tokens come from.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "trireme/data/token_file.h"
#include "trireme/data/token_loader.h"
#include "trireme/data/tokenizer.h"
#include "trireme/train/config.h"

namespace trireme::train {

/// The tokens to train on and to evaluate on.
struct TokenSources {
  /// Null if there is none, as for files of tokens.
  std::shared_ptr<const data::Tokenizer> tokenizer;
  data::TokenFile training;
  std::optional<data::TokenFile> held_out;
};

/// Opens what the config names; without a path the text that comes with the program.
/// InvalidArgument if a file cannot be opened, or has no window of seq_len tokens.
TokenSources open_sources(const Config& config);

/// How a loader gives data parallel rank `rank` of `ranks` its samples.
data::TokenLoaderOptions loader_options(
    const Config& config, int rank, int ranks, int64_t vocab_size);

/// The folder of that text: TRIREME_TEXT, or share/trireme/text beside the program's
/// own folder. NotSupported if it is not there.
std::filesystem::path own_text_folder();

/// How many tokens a model needs for it; 0 if there is none.
int64_t vocabulary_of(const data::Tokenizer* tokenizer);

/// What data.tokenizer asks for; null for none. auto: the tokenizer.json of
/// model.hf_assets_path; without one bytes for text, and none for tokens. One that is
/// not supported is none for tokens, which need it for samples alone.
std::shared_ptr<const data::Tokenizer> open_tokenizer(const Config& config);

}  // namespace trireme::train
