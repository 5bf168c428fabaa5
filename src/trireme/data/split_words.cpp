#include "trireme/data/split_words.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "trireme/data/unicode.h"
#include "trireme/data/utf8.h"

namespace trireme::data {
namespace {

/// A character of a text; at its end one of no bytes, which is in no class.
struct Character {
  char32_t value = 0;
  size_t bytes = 0;
  CharClass kind = CharClass::Other;

  bool is(CharClass wanted) const { return bytes > 0 && kind == wanted; }
  bool is_newline() const { return value == '\r' || value == '\n'; }
};

Character character_at(std::string_view text, size_t at) {
  if (at >= text.size())
    return {};
  const CodePoint point = first_code_point(text.substr(at));
  return {point.value, point.bytes, class_of(point.value)};
}

/// Where the characters end that `belongs` is true for, from `at` on, at most so many.
template <class Belongs>
size_t end_of_run(
    std::string_view text,
    size_t at,
    Belongs belongs,
    size_t most = std::string::npos) {
  for (size_t count = 0; count < most; ++count) {
    const Character next = character_at(text, at);
    if (next.bytes == 0 || !belongs(next))
      break;
    at += next.bytes;
  }
  return at;
}

bool is_letter(const Character& one) {
  return one.kind == CharClass::Letter;
}
bool is_number(const Character& one) {
  return one.kind == CharClass::Number;
}
bool is_space(const Character& one) {
  return one.kind == CharClass::Space;
}
bool is_newline(const Character& one) {
  return one.is_newline();
}
bool is_letter_or_mark(const Character& one) {
  return one.kind == CharClass::Letter || one.kind == CharClass::Mark;
}
bool is_sign(const Character& one) {
  return one.kind == CharClass::Punctuation || one.kind == CharClass::Symbol;
}
/// [^\s\p{L}\p{N}]
bool is_rest(const Character& one) {
  return !is_letter(one) && !is_number(one) && !is_space(one);
}

// All functions below give the bytes that match at the start of the text; 0 if none do.

/// 's|'t|'re|'ve|'m|'ll|'d, be it in capitals where `any_case` says so.
size_t match_contraction(std::string_view text, bool any_case) {
  if (text.front() != '\'')
    return 0;
  const auto letter = [&](size_t at) {
    const char byte = at < text.size() ? text[at] : '\0';
    return any_case && byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte;
  };
  const char first = letter(1);
  const char second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd')
    return 2;
  if (((first == 'r' || first == 'v') && second == 'e') ||
      (first == 'l' && second == 'l'))
    return 3;
  // The long s is a small letter of S too.
  return any_case && text.substr(1).starts_with("ſ") ? 3 : 0;
}

/// \s*[\r\n]+
size_t match_lines(std::string_view text) {
  const std::string_view spaces = text.substr(0, end_of_run(text, 0, is_space));
  return spaces.find_last_of("\r\n") + 1;  // 0 where there is none
}

/// \s+(?!\S)|\s+: all space, but the last one belongs to the word after it.
size_t match_spaces(std::string_view text) {
  size_t end = 0;
  size_t before = 0;
  while (character_at(text, end).is(CharClass::Space))
    before = std::exchange(end, end + character_at(text, end).bytes);
  return end < text.size() && before > 0 ? before : end;
}

/// A run of characters, with a space before it or not; then line ends where `lines`.
template <class Belongs>
size_t match_run(std::string_view text, Belongs belongs, bool lines = false) {
  const size_t begin = text.front() == ' ' ? 1 : 0;
  const size_t end = end_of_run(text, begin, belongs);
  if (end == begin)
    return 0;
  return lines ? end_of_run(text, end, is_newline) : end;
}

size_t match_gpt2(std::string_view text) {
  if (const size_t end = match_contraction(text, false))
    return end;
  if (const size_t end = match_run(text, is_letter))
    return end;
  if (const size_t end = match_run(text, is_number))
    return end;
  if (const size_t end = match_run(text, is_rest))
    return end;
  return match_spaces(text);
}

size_t match_llama3(std::string_view text, size_t numbers) {
  if (const size_t end = match_contraction(text, true))
    return end;
  const Character first = character_at(text, 0);
  if (is_number(first))
    return end_of_run(text, 0, is_number, numbers);
  // Any one character may stand before the letters, but for line ends.
  const size_t begin = is_letter(first) || first.is_newline() ? 0 : first.bytes;
  if (const size_t end = end_of_run(text, begin, is_letter); end > begin)
    return end;
  if (const size_t end = match_run(text, is_rest, true))
    return end;
  if (const size_t end = match_lines(text))
    return end;
  return match_spaces(text);
}

size_t match_scripts(std::string_view text) {
  return end_of_run(text, 0, [](const Character& one) {
    return (one.value >= 0x4e00 && one.value <= 0x9fa5) ||
           (one.value >= 0x3040 && one.value <= 0x30ff);
  });
}

bool is_ascii_letter(const Character& one) {
  return one.value < 0x80 && is_letter(one);
}

size_t match_deep_seek(std::string_view text) {
  const Character first = character_at(text, 0);
  if (first.value < 0x80 && is_sign(first))
    if (const size_t end = end_of_run(text, 1, is_ascii_letter); end > 1)
      return end;
  const bool may_lead = !is_letter(first) && !is_sign(first) && !first.is_newline();
  if (may_lead)
    if (const size_t end = end_of_run(text, first.bytes, is_letter_or_mark);
        end > first.bytes)
      return end;
  if (const size_t end = end_of_run(text, 0, is_letter_or_mark))
    return end;
  if (const size_t end = match_run(text, is_sign, true))
    return end;
  if (const size_t end = match_lines(text))
    return end;
  return match_spaces(text);
}

size_t match(Splitter splitter, std::string_view text) {
  switch (splitter) {
    case Splitter::Gpt2:
      return match_gpt2(text);
    case Splitter::Llama3:
      return match_llama3(text, 3);
    case Splitter::Qwen2:
      return match_llama3(text, 1);
    case Splitter::ThreeNumbers:
      return end_of_run(text, 0, is_number, 3);
    case Splitter::DeepSeekScripts:
      return match_scripts(text);
    case Splitter::DeepSeekWords:
      return match_deep_seek(text);
    case Splitter::EachDigit:
      return end_of_run(text, 0, is_number, 1);
    case Splitter::Digits:
      return end_of_run(text, 0, is_number);
  }
  return 0;
}

struct Known {
  std::string_view pattern;
  Splitter splitter;
};

constexpr std::array kKnown{
    Known{
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
        Splitter::Gpt2},
    Known{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?)"
        R"([^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        Splitter::Llama3},
    Known{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?)"
        R"([^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        Splitter::Qwen2},
    Known{R"(\p{N}{1,3})", Splitter::ThreeNumbers},
    Known{"[一-龥぀-ゟ゠-ヿ]+", Splitter::DeepSeekScripts},
    Known{
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?)"
        R"([\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        Splitter::DeepSeekWords}};

}  // namespace

std::optional<Splitter> splitter_of(std::string_view pattern) {
  // Files write a line end as itself or escaped.
  std::string plain;
  for (const char letter : pattern)
    if (letter == '\r')
      plain += "\\r";
    else if (letter == '\n')
      plain += "\\n";
    else
      plain += letter;
  for (const Known& known : kKnown)
    if (known.pattern == plain)
      return known.splitter;
  return std::nullopt;
}

bool covers_all(Splitter splitter) {
  return splitter == Splitter::Gpt2 || splitter == Splitter::Llama3 ||
         splitter == Splitter::Qwen2;
}

std::string_view take_word(Splitter splitter, std::string_view& text) {
  size_t end = match(splitter, text);
  if (end == 0)  // a word that lasts until the next match
    do
      end += first_code_point(text.substr(end)).bytes;
    while (end < text.size() && match(splitter, text.substr(end)) == 0);
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

}  // namespace trireme::data
