#include "trireme/data/utf8.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t value = 0; value <= 0x10ffff; ++value) {
    if (value >= 0xd800 && value <= 0xdfff)
      continue;
    std::string text;
    append_utf8(text, value);
    const CodePoint point = first_code_point(text);
    ASSERT_TRUE(point.valid) << static_cast<uint32_t>(value);
    ASSERT_TRUE(point.value == value);
    ASSERT_EQ(point.bytes, text.size());
  }
}

// Each case as Python says: bytes.decode(errors="replace").
TEST(Utf8, ReplacesAsPythonDoes) {
  EXPECT_EQ(as_utf8("aé漢😀"), "aé漢😀");
  EXPECT_EQ(as_utf8(""), "");
  EXPECT_EQ(
      as_utf8("a\xff\xfe"
              "b"),
      "a��b");
  EXPECT_EQ(as_utf8("\xe6\xbc"), "�");  // a cut character
  EXPECT_EQ(
      as_utf8("\xe6\xbc"
              "a"),
      "�a");
  EXPECT_EQ(as_utf8("\xf0\x9f\x98"), "�");
  EXPECT_EQ(as_utf8("\xc0\xaf"), "��");  // a long form
  EXPECT_EQ(as_utf8("\xe0\x80\xaf"), "���");
  EXPECT_EQ(as_utf8("\xed\xa0\x80"), "���");       // a surrogate
  EXPECT_EQ(as_utf8("\xf4\x90\x80\x80"), "����");  // after U+10FFFF
  EXPECT_EQ(as_utf8("\xf5"), "�");
  EXPECT_EQ(as_utf8("\x80"), "�");
  EXPECT_EQ(as_utf8("\xf0\x9f\xc3\xa9"), "�é");
}

TEST(Utf8, GoesBackByCharacters) {
  const std::string text = "aé😀";
  EXPECT_EQ(begin_of_character(text, text.size()), 3U);
  EXPECT_EQ(begin_of_character(text, 3), 1U);
  EXPECT_EQ(begin_of_character(text, 1), 0U);
  EXPECT_EQ(begin_of_character(text, 0), 0U);
}

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(find_invalid("aé"), 3U);
  EXPECT_EQ(
      find_invalid("aé\xff"
                   "b"),
      3U);
  EXPECT_EQ(find_invalid("\xc3"), 0U);
}

}  // namespace
}  // namespace trireme::data
