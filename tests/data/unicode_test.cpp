#include "trireme/data/unicode.h"

#include <string>

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

TEST(Unicode, KnowsTheClassesOfAscii) {
  for (char32_t point = 0; point < 128; ++point) {
    CharClass wanted = CharClass::Other;
    if ((point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z'))
      wanted = CharClass::Letter;
    else if (point >= '0' && point <= '9')
      wanted = CharClass::Number;
    else if (point == ' ' || (point >= 9 && point <= 13))
      wanted = CharClass::Space;
    else if (
        std::string("$+<=>^`|~").find(static_cast<char>(point)) != std::string::npos)
      wanted = CharClass::Symbol;
    else if (point > ' ' && point < 127)
      wanted = CharClass::Punctuation;
    EXPECT_EQ(class_of(point), wanted) << static_cast<int>(point);
  }
}

// The whole table is compared with the tokenizers package in a peer test.
TEST(Unicode, KnowsOtherScripts) {
  for (const char32_t letter :
       {U'é', U'Ж', U'漢', U'ア', U'ª', U'\u1c89', U'\U0002ebe0'})
    EXPECT_EQ(class_of(letter), CharClass::Letter) << static_cast<int>(letter);
  for (const char32_t number : {U'²', U'Ⅷ', U'٣', U'½', U'\U0001d7ce'})
    EXPECT_EQ(class_of(number), CharClass::Number) << static_cast<int>(number);
  for (const char32_t space : {U'\u0085', U'\u00a0', U'\u2003', U'\u3000'})
    EXPECT_EQ(class_of(space), CharClass::Space) << static_cast<int>(space);
  EXPECT_EQ(class_of(U'\u0301'), CharClass::Mark);
  EXPECT_EQ(class_of(U'。'), CharClass::Punctuation);
  EXPECT_EQ(class_of(U'😀'), CharClass::Symbol);
  for (const char32_t other : {U'\u200b', U'\ufeff', U'\ue000', U'\U0010ffff'})
    EXPECT_EQ(class_of(other), CharClass::Other) << static_cast<int>(other);
}

TEST(Unicode, KnowsWhatNormalizationMayChange) {
  EXPECT_FALSE(may_change_in_nfc('a'));
  EXPECT_FALSE(may_change_in_nfc(U'é'));
  EXPECT_FALSE(may_change_in_nfc(U'漢'));
  EXPECT_FALSE(may_change_in_nfc(U'가'));
  EXPECT_TRUE(may_change_in_nfc(U'\u0301'));  // joins the letter before it
  EXPECT_TRUE(may_change_in_nfc(U'\u2126'));  // the ohm sign becomes omega
  EXPECT_TRUE(may_change_in_nfc(U'\u1161'));  // a part of a Korean syllable
  EXPECT_EQ(find_not_nfc("aé漢😀"), 10U);
  EXPECT_EQ(find_not_nfc("aéa\u0301"), 4U);
}

}  // namespace
}  // namespace trireme::data
