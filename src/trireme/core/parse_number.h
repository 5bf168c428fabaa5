// Numbers in text, all of it or nothing.
#pragma once
#include <charconv>
#include <optional>
#include <string_view>

namespace trireme {

/// The number that `word` is, as std::from_chars reads it (no blanks, no plus); nothing
/// if it is none, has something after it, or does not fit.
///
///     parse_number<int>("12");   // 12
///     parse_number<int>("12 ");  // nothing
template <class Number>
std::optional<Number> parse_number(std::string_view word) {
  Number number{};
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return number;
}

}  // namespace trireme
