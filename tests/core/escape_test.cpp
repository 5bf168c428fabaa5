// What comes from outside cannot reach a terminal or forge a line.
#include "trireme/core/escape.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Escape, LeavesPrintableTextAlone) {
  EXPECT_EQ(escaped("rank 3: \\ \"x\" ~"), "rank 3: \\ \"x\" ~");
  EXPECT_EQ(escaped(""), "");
}

TEST(Escape, NamesTheCommonControlCharacters) {
  EXPECT_EQ(escaped("a\nb\rc\td"), "a\\nb\\rc\\td");
}

TEST(Escape, WritesOtherControlCharactersInHex) {
  EXPECT_EQ(escaped(std::string_view("\0\x1b[31m\x7f", 7)), "\\x00\\x1b[31m\\x7f");
}

TEST(Escape, KeepsUtf8) {
  EXPECT_EQ(escaped("größe … 位"), "größe … 位");
}

TEST(Escape, CatchesTheControlsAboveAscii) {
  EXPECT_EQ(
      escaped("a\x9b"
              "31m"),
      "a\\x9b31m");
  EXPECT_EQ(
      escaped("a\xc2\x9b"
              "31m"),
      "a\\xc2\\x9b31m");
  EXPECT_EQ(escaped("\x85"), "\\x85");
}

TEST(Escape, QuotesShortTextWhole) {
  EXPECT_EQ(in_quotes("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(in_quotes(""), "\"\"");
  EXPECT_EQ(in_quotes(std::string(80, 'x')), '"' + std::string(80, 'x') + '"');
}

TEST(Escape, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(in_quotes(std::string(81, 'x')), '"' + std::string(80, 'x') + "\"...");
  const std::string before(79, 'x');
  EXPECT_EQ(in_quotes(before + "ö and more"), '"' + before + "\"...");
}

}  // namespace
}  // namespace trireme
