#include "trireme/data/split_words.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

using Words = std::vector<std::string>;

Words split(Splitter splitter, std::string_view text) {
  Words words;
  while (!text.empty())
    words.emplace_back(take_word(splitter, text));
  return words;
}

TEST(SplitWords, Gpt2TakesTheSpaceBeforeAWord) {
  const auto words = [](std::string_view text) { return split(Splitter::Gpt2, text); };
  EXPECT_EQ(words("Hello world 12 !?"), (Words{"Hello", " world", " 12", " !?"}));
  EXPECT_EQ(words("a  b   "), (Words{"a", " ", " b", "   "}));
  EXPECT_EQ(words("a \n\n b"), (Words{"a", " \n\n", " b"}));
  EXPECT_EQ(words("a\nb"), (Words{"a", "\n", "b"}));
  EXPECT_EQ(words("x1y"), (Words{"x", "1", "y"}));
  EXPECT_EQ(words("漢字 é"), (Words{"漢字", " é"}));
  EXPECT_EQ(words(""), Words{});
  EXPECT_EQ(words(" "), Words{" "});
}

TEST(SplitWords, Gpt2KnowsSmallContractionsOnly) {
  const auto words = [](std::string_view text) { return split(Splitter::Gpt2, text); };
  EXPECT_EQ(
      words("it's we'll I'VE 'x"),
      (Words{"it", "'s", " we", "'ll", " I", "'", "VE", " '", "x"}));
  EXPECT_EQ(words("'re've'd"), (Words{"'re", "'ve", "'d"}));
  EXPECT_EQ(words("'"), Words{"'"});
  EXPECT_EQ(words("'r"), (Words{"'", "r"}));
}

TEST(SplitWords, Llama3KeepsThreeDigitsAndLineEnds) {
  const auto words = [](std::string_view text) {
    return split(Splitter::Llama3, text);
  };
  EXPECT_EQ(words("12345 x"), (Words{"123", "45", " x"}));
  EXPECT_EQ(
      words("It'S \"quoted\"\n\n\tx"),
      (Words{"It", "'S", " \"", "quoted", "\"\n\n", "\tx"}));
  EXPECT_EQ(words("a  \r\n \n  b"), (Words{"a", "  \r\n \n", " ", " b"}));
  EXPECT_EQ(words("'ſ"), Words{"'ſ"});
  EXPECT_EQ(words("(foo) 1"), (Words{"(foo", ")", " ", "1"}));
  EXPECT_EQ(words("a   "), (Words{"a", "   "}));
  EXPECT_EQ(split(Splitter::Qwen2, "123 x"), (Words{"1", "2", "3", " x"}));
}

TEST(SplitWords, DeepSeekWorksInThreeSteps) {
  EXPECT_EQ(split(Splitter::ThreeNumbers, "ab1234c"), (Words{"ab", "123", "4", "c"}));
  EXPECT_EQ(
      split(Splitter::DeepSeekScripts, "a漢字ひ b"), (Words{"a", "漢字ひ", " b"}));
  EXPECT_EQ(
      split(Splitter::DeepSeekWords, "foo.bar (x) é\u0301!\n\n  y"),
      (Words{"foo", ".bar", " (", "x", ")", " é\u0301", "!\n\n", " ", " y"}));
  EXPECT_EQ(
      split(
          Splitter::DeepSeekWords,
          "\x01\x02"
          "12"),
      (Words{"\x01\x02"
             "12"}));
}

TEST(SplitWords, DigitsAloneOrInRuns) {
  EXPECT_EQ(split(Splitter::EachDigit, "ab12c"), (Words{"ab", "1", "2", "c"}));
  EXPECT_EQ(split(Splitter::Digits, "ab12c"), (Words{"ab", "12", "c"}));
}

TEST(SplitWords, KnowsPatternsByTheirText) {
  EXPECT_EQ(
      splitter_of(
          R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
      Splitter::Gpt2);
  const std::string llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(splitter_of(llama3), Splitter::Llama3);
  std::string raw;  // with line ends as they are
  for (size_t at = 0; at < llama3.size(); ++at)
    if (llama3.compare(at, 4, "\\r\\n") == 0) {
      raw += "\r\n";
      at += 3;
    } else {
      raw += llama3[at];
    }
  EXPECT_EQ(splitter_of(raw), Splitter::Llama3);
  EXPECT_EQ(splitter_of(R"(\p{N}{1,3})"), Splitter::ThreeNumbers);
  EXPECT_EQ(splitter_of(R"(\p{N}{1,4})"), std::nullopt);
  EXPECT_TRUE(covers_all(Splitter::Qwen2));
  EXPECT_FALSE(covers_all(Splitter::Digits));
}

}  // namespace
}  // namespace trireme::data
