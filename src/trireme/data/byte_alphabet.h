// The letters that byte-level vocabularies write bytes with.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::data {

/// The letter of a byte as a code point: printable bytes of Latin-1 are their own
/// letter, the others follow from U+0100 on in their order (GPT-2's alphabet, in which
/// the space is Ġ and the line end is Ċ).
char32_t letter_of_byte(uint8_t byte);
/// The byte of a letter; nothing if no byte has it.
std::optional<uint8_t> byte_of_letter(char32_t letter);

/// Bytes written in letters, as UTF-8: " a" is "Ġa".
std::string letters_of(std::string_view bytes);
/// The bytes of a token written in letters; nothing if one is no letter of a byte.
std::optional<std::string> bytes_of_letters(std::string_view letters);

}  // namespace trireme::data
