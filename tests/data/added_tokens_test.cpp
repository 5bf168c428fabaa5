#include "trireme/data/added_tokens.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::data {
namespace {

/// The parts of a text: texts in brackets, tokens as numbers.
std::string cut(const AddedTokens& added, std::string_view text) {
  std::string parts;
  added.cut(
      text,
      [&](std::string_view rest) { parts += trireme::text("[", rest, "]"); },
      [&](int64_t token) { parts += std::to_string(token); });
  return parts;
}

TEST(AddedTokens, CutText) {
  const AddedTokens added(
      {{.token = 1, .content = "<a>"}, {.token = 2, .content = "<b>"}});
  EXPECT_EQ(cut(added, "x<a>y<b><a>"), "[x]1[y]21");
  EXPECT_EQ(cut(added, "<a"), "[<a]");
  EXPECT_EQ(cut(added, ""), "");
  EXPECT_EQ(cut(added, "<<a>"), "[<]1");
  EXPECT_EQ(cut(AddedTokens(), "<a>"), "[<a>]");
}

TEST(AddedTokens, TheLongestWins) {
  const AddedTokens added(
      {{.token = 1, .content = "ab"},
       {.token = 2, .content = "abc"},
       {.token = 3, .content = "bcd"}});
  EXPECT_EQ(cut(added, "abcd"), "2[d]");
  EXPECT_EQ(cut(added, "abd"), "1[d]");
  EXPECT_EQ(cut(added, "xbcd"), "[x]3");
}

TEST(AddedTokens, TakeTheSpaceAround) {
  const AddedTokens added(
      {{.token = 1, .content = "<l>", .left_strip = true},
       {.token = 2, .content = "<r>", .right_strip = true},
       {.token = 3, .content = "<n>"}});
  EXPECT_EQ(cut(added, "x \t\u3000<l> y"), "[x]1[ y]");
  EXPECT_EQ(cut(added, "x <r> \n y"), "[x ]2[y]");
  EXPECT_EQ(cut(added, "x <n> y"), "[x ]3[ y]");
  EXPECT_EQ(cut(added, "<r>  <l>  "), "21[  ]");  // the space goes to the first
  EXPECT_EQ(cut(added, "  <l>"), "1");
  EXPECT_EQ(cut(added, "<r>  "), "2");
}

}  // namespace
}  // namespace trireme::data
