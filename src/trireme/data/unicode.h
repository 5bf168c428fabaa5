// What kind of character a code point is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme::data {

/// The classes that the patterns of tokenizers ask for. A code point is in one only.
enum class CharClass : uint8_t {
  Other,
  Letter,       // \p{L}
  Mark,         // \p{M}
  Number,       // \p{N}
  Punctuation,  // \p{P}
  Symbol,       // \p{S}
  Space,        // \s, which is White_Space
};

/// As Unicode 16.0 has it.
CharClass class_of(char32_t code_point);

/// Whether normalization form C may change the code point, or what stands around it.
bool may_change_in_nfc(char32_t code_point);

/// Where the first such code point is; the size of the text if there is none: then the
/// text is in form C.
size_t find_not_nfc(std::string_view text);

}  // namespace trireme::data
