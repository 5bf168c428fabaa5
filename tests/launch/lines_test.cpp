#include "trireme/launch/lines.h"

#include <random>

#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

// `all` in pieces of at most `piece` bytes.
std::string prefixed(std::string_view all, size_t piece) {
  LinePrefixer prefixer("> ");
  std::string out;
  for (size_t at = 0; at < all.size(); at += piece)
    prefixer.add(all.substr(at, piece), out);
  prefixer.finish(out);
  return out;
}

TEST(LinePrefixer, MarksEachLineHoweverItComes) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"a\n", "> a\n"},
      {"a\nb\n", "> a\n> b\n"},
      {"a", "> a\n"},
      {"a\nb", "> a\n> b\n"},
      {"\n\n", "> \n> \n"},
      {"a\r\nb\r\n", "> a\r\n> b\r\n"},
      {"1%\r2%\r3%\n", "> 1%\r> 2%\r> 3%\n"},
      {"\r1%\r2%", "> \r> 1%\r> 2%\n"},
      {"a\r\r\nb\n", "> a\r> \r\n> b\n"}};
  for (const auto& [text, wanted] : cases)
    for (const size_t piece : {1, 2, 3, 100})
      EXPECT_EQ(prefixed(text, piece), wanted) << "pieces of " << piece;
}

TEST(LinePrefixer, HoldsALineBackUntilItIsComplete) {
  LinePrefixer prefixer("> ");
  std::string out;
  prefixer.add("a", out);
  prefixer.add("b", out);
  EXPECT_EQ(out, "");
  prefixer.add("c\nd", out);
  EXPECT_EQ(out, "> abc\n");
}

TEST(LinePrefixer, GivesALineWithoutEndInPieces) {
  const std::string endless(LinePrefixer::kMostHeld * 5 / 2, 'x');
  for (const size_t piece : {size_t{1000}, LinePrefixer::kMostHeld, endless.size()}) {
    const std::string out = prefixed(endless, piece);
    std::string_view rest = out;
    for (const size_t length :
         {LinePrefixer::kMostHeld,
          LinePrefixer::kMostHeld,
          LinePrefixer::kMostHeld / 2}) {
      ASSERT_TRUE(rest.starts_with("> "));
      ASSERT_EQ(rest.find('\n'), length + 2);
      rest.remove_prefix(length + 3);
    }
    EXPECT_TRUE(rest.empty());
  }
}

// Whatever the pieces: the same lines, and no byte is lost.
TEST(LinePrefixer, DoesNotDependOnThePieces) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string all;
    for (size_t n = random() % 50; n > 0; --n)
      all += "ab\n\r"[random() % 4];
    const std::string whole = prefixed(all, 1000);
    for (const size_t piece : {1, 2, 7})
      ASSERT_EQ(prefixed(all, piece), whole) << ::testing::PrintToString(all);
    std::string bare;
    for (size_t at = 0; at < whole.size(); ++at)
      if (whole.compare(at, 2, "> ") == 0)
        ++at;
      else
        bare += whole[at];
    if (!all.empty() && all.back() != '\n')
      all += '\n';
    ASSERT_EQ(bare, all);
  }
}

TEST(Tail, GivesTheLastLines) {
  Tail tail;
  EXPECT_EQ(tail.last_lines(3), "");
  tail.add("one\ntwo\n");
  tail.add("three\n\n");
  EXPECT_EQ(tail.last_lines(1), "three");
  EXPECT_EQ(tail.last_lines(2), "two\nthree");
  EXPECT_EQ(tail.last_lines(10), "one\ntwo\nthree");
  tail.add("four");
  EXPECT_EQ(tail.last_lines(1), "four");
  EXPECT_EQ(tail.last_lines(3), "three\n\nfour");
  EXPECT_EQ(tail.last_lines(0), "");
}

TEST(Tail, LeavesOutALineWhoseStartIsGone) {
  Tail tail;
  tail.add(std::string(Tail::kMostBytes, 'x'));
  tail.add("\nlast\n");
  EXPECT_EQ(tail.last_lines(10), "last");
  Tail one;
  one.add(std::string(2 * Tail::kMostBytes, 'x'));
  EXPECT_EQ(one.last_lines(10), std::string(Tail::kMostBytes, 'x'))
      << "there is no more";
}

TEST(Tail, KeepsNoMoreThanItShould) {
  Tail tail;
  std::string all;
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string line(random() % 100, 'a');
    line += "\n";
    all += line;
    tail.add(line);
  }
  const std::string last = tail.last_lines(1'000'000);
  EXPECT_LE(last.size(), Tail::kMostBytes);
  EXPECT_GT(last.size(), Tail::kMostBytes - 200);
  while (all.ends_with("\n"))
    all.pop_back();
  EXPECT_TRUE(all.ends_with("\n" + last));
}

TEST(Indented, PutsEachLineIn) {
  EXPECT_EQ(indented("", "  "), "");
  EXPECT_EQ(indented("a", "  "), "  a\n");
  EXPECT_EQ(indented("a\r\n\nb\n", "  "), "  a\n  \n  b\n");
}

TEST(Indented, LetsNothingThroughThatATerminalObeys) {
  EXPECT_EQ(indented("a\tb\x1b[31m\x07", "  "), "  a\tb\\x1b[31m\\x07\n");
  EXPECT_EQ(indented("10%\r20%", "  "), "  10%\\r20%\n");
}

TEST(Indented, CutsLongLines) {
  EXPECT_EQ(
      indented(std::string(501, 'x'), "  "), "  " + std::string(500, 'x') + "…\n");
  EXPECT_EQ(indented(std::string(500, 'x'), ""), std::string(500, 'x') + "\n");
}

}  // namespace
}  // namespace trireme::launch
