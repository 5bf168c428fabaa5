// UTF-8, and what becomes of bytes that are none.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::data {

/// What takes the place of bytes that are no UTF-8.
inline constexpr char32_t kReplacement = 0xfffd;

struct CodePoint {
  /// kReplacement if it is not valid.
  char32_t value = kReplacement;
  /// How many bytes it takes; at least 1.
  size_t bytes = 1;
  bool valid = false;
};

/// The code point at the start of a text that is not empty. Where the bytes are none,
/// it takes those that could have begun one, as Python's errors="replace" does and the
/// Unicode standard advises (3.9, table 3-8).
CodePoint first_code_point(std::string_view text);

/// Where the code point before byte `end` of a valid text begins; 0 at its start.
size_t begin_of_character(std::string_view text, size_t end);

void append_utf8(std::string& text, char32_t code_point);

/// Where the first bytes are that are no UTF-8; the size of the text if there are none.
size_t find_invalid(std::string_view text);

/// The text with U+FFFD in place of all that is no UTF-8.
std::string as_utf8(std::string_view text);

}  // namespace trireme::data
