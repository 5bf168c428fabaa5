// What a tokenizer.json says, as plain data.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/data/added_tokens.h"
#include "trireme/data/split_words.h"

namespace trireme::data {

/// A byte-level BPE tokenizer, as Hugging Face's files describe one.
struct TokenizerSpec {
  /// Each token as the file writes it (in letters, see byte_alphabet.h), and its
  /// number.
  std::vector<std::pair<std::string, int64_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;
  bool ignore_merges = false;
  /// The file says what becomes of bytes that the vocabulary does not have; we do not
  /// follow, so it must have all.
  bool handles_unknown = false;

  std::vector<AddedToken> added;
  /// Text is put into normalization form C first.
  bool nfc = false;
  /// A text that begins without a space is given one.
  bool add_prefix_space = false;
  /// Each cuts what the one before it has left.
  std::vector<Splitter> splitters;
  /// Tokens around a prompt, such as the start of text.
  std::vector<int64_t> before, after;
};

/// Reads the content of a tokenizer.json. InvalidArgument if it is none; NotSupported,
/// with the field and its value, if it is another kind of tokenizer. `file` is for
/// messages.
TokenizerSpec parse_tokenizer_spec(std::string_view json, const std::string& file);

}  // namespace trireme::data
