// The tokens at which a model's text ends.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "trireme/data/tokenizer.h"

namespace trireme::train {

/// The eos_token_id (one or several) of a folder's generation_config.json, else of its
/// config.json, as transformers has it; where neither says anything, the tokenizer's
/// end of text, if it has one. InvalidArgument for files that are wrong.
///
///     end_tokens("gpt2", tokenizer.get())   // {50256}
std::vector<int64_t> end_tokens(
    const std::filesystem::path& folder, const data::Tokenizer* tokenizer);

}  // namespace trireme::train
