// The tokens at which a model's text ends.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "trireme/data/tokenizer.h"

namespace trireme::train {

/// The eos_token_id (one, several or none) of a folder's generation_config.json, as
/// transformers has it; without that file the one of config.json, or else the
/// tokenizer's end of text, if there is one. InvalidArgument for files that are wrong.
///
///     end_tokens("gpt2", tokenizer.get())   // {50256}
std::vector<int64_t> end_tokens(
    const std::filesystem::path& folder, const data::Tokenizer* tokenizer);

}  // namespace trireme::train
