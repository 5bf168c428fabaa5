// Normalization form C of Unicode.
#pragma once
#include <string>
#include <string_view>

namespace trireme::data {

/// The text, which is valid UTF-8, with each letter and its marks as one code point
/// where there is one, and marks in order: what the `tokenizers` package makes of it.
/// Costs a copy where nothing has to change; find_not_nfc() (unicode.h) says whether
/// something may.
///
///     nfc("e\u0301");  // "é"
std::string nfc(std::string_view text);

}  // namespace trireme::data
