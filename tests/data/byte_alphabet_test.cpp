#include "trireme/data/byte_alphabet.h"

#include <set>

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

TEST(ByteAlphabet, EachByteHasALetterOfItsOwn) {
  std::set<char32_t> letters;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t letter = letter_of_byte(static_cast<uint8_t>(byte));
    letters.insert(letter);
    EXPECT_EQ(byte_of_letter(letter), byte);
  }
  EXPECT_EQ(letters.size(), 256U);
}

TEST(ByteAlphabet, WritesSpaceAndLineEndAsGpt2) {
  EXPECT_EQ(letters_of(" a\n"), "ĠaĊ");
  EXPECT_EQ(letters_of("\xc3\xa9"), "Ã©");
  EXPECT_EQ(bytes_of_letters("ĠaĊÃ©"), " a\n\xc3\xa9");
  EXPECT_EQ(letters_of(""), "");
}

TEST(ByteAlphabet, RefusesOtherLetters) {
  EXPECT_EQ(byte_of_letter(' '), std::nullopt);
  EXPECT_EQ(byte_of_letter(0x144), std::nullopt);
  EXPECT_EQ(byte_of_letter(0x10ffff), std::nullopt);
  EXPECT_EQ(bytes_of_letters("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_letters("a\xff"), std::nullopt);
}

}  // namespace
}  // namespace trireme::data
