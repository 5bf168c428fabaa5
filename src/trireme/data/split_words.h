// The first step of a tokenizer: text is cut into words, which are merged on their own.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace trireme::data {

/// A way to cut text. Each but Digits is a regular expression of a known tokenizer,
/// written out as a function: what it matches is a word, and so is what lies between
/// two matches.
enum class Splitter {
  /// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  Gpt2,
  /// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
  ///  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  Llama3,
  /// The same with \p{N} alone.
  Qwen2,
  /// \p{N}{1,3}
  ThreeNumbers,
  /// Chinese characters, hiragana and katakana.
  DeepSeekScripts,
  /// What DeepSeek V3 does after these two.
  DeepSeekWords,
  /// Each number for itself.
  EachDigit,
  /// Runs of numbers.
  Digits,
};

/// The splitter of a regular expression as tokenizer.json writes it; nothing if it is
/// not one of those above.
std::optional<Splitter> splitter_of(std::string_view pattern);

/// Whether a splitter's matches cover any text.
bool covers_all(Splitter splitter);

/// Takes the first word off `text`, which is valid UTF-8 and not empty. The words are
/// those of the whole text, so ask until it is empty:
///
///     while (!text.empty())
///       use(take_word(Splitter::Gpt2, text));
std::string_view take_word(Splitter splitter, std::string_view& text);

}  // namespace trireme::data
