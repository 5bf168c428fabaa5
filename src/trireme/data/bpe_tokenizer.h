// A byte-level BPE tokenizer made of what a file says.
#pragma once
#include <memory>
#include <string>

#include "trireme/data/tokenizer.h"
#include "trireme/data/tokenizer_spec.h"

namespace trireme::data {

/// `json` is what to_json() gives back; `file` is for messages. InvalidArgument if the
/// parts do not fit each other.
std::shared_ptr<const Tokenizer> make_bpe_tokenizer(
    const TokenizerSpec& spec, std::string json, const std::string& file);

}  // namespace trireme::data
