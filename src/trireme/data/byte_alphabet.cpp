#include "trireme/data/byte_alphabet.h"

#include <array>

#include "trireme/data/utf8.h"

namespace trireme::data {
namespace {

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

constexpr char32_t kFirstOther = 0x100;
constexpr size_t kOthers = 68;

struct Alphabet {
  std::array<char32_t, 256> letters{};
  std::array<uint8_t, kOthers> others{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  size_t count = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (is_printable(byte)) {
      alphabet.letters[byte] = byte;
      continue;
    }
    alphabet.letters[byte] = kFirstOther + static_cast<char32_t>(count);
    alphabet.others[count++] = static_cast<uint8_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
static_assert(kAlphabet.letters[' '] == 0x120 && kAlphabet.others[kOthers - 1] == 0xad);

}  // namespace

char32_t letter_of_byte(uint8_t byte) {
  return kAlphabet.letters[byte];
}

std::optional<uint8_t> byte_of_letter(char32_t letter) {
  if (letter < kFirstOther)
    return is_printable(letter) ? std::optional(static_cast<uint8_t>(letter))
                                : std::nullopt;
  const size_t other = letter - kFirstOther;
  return other < kOthers ? std::optional(kAlphabet.others[other]) : std::nullopt;
}

std::string letters_of(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes)
    append_utf8(letters, letter_of_byte(static_cast<uint8_t>(byte)));
  return letters;
}

std::optional<std::string> bytes_of_letters(std::string_view letters) {
  std::string bytes;
  while (!letters.empty()) {
    const CodePoint point = first_code_point(letters);
    const auto byte = point.valid ? byte_of_letter(point.value) : std::nullopt;
    if (!byte)
      return std::nullopt;
    bytes += static_cast<char>(*byte);
    letters.remove_prefix(point.bytes);
  }
  return bytes;
}

}  // namespace trireme::data
