#include "trireme/data/bpe.h"

#include <chrono>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;
using Tokens = std::vector<int64_t>;

Tokens encode(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  Tokens tokens;
  bpe.encode(word, scratch, tokens);
  return tokens;
}

BpeOptions small() {
  return {
      .vocab = {{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"ab", 4}, {"abc", 5}},
      .merges = {{"b", "c"}, {"a", "b"}, {"a", "bc"}}};
}

TEST(Bpe, MergesInTheOrderOfTheMerges) {
  const Bpe bpe(small());
  EXPECT_EQ(encode(bpe, "abc"), Tokens{5});  // bc first, then a and bc
  EXPECT_EQ(encode(bpe, "abb"), (Tokens{4, 1}));
  EXPECT_EQ(encode(bpe, "cba"), (Tokens{2, 1, 0}));
  EXPECT_EQ(encode(bpe, "ababc"), (Tokens{4, 5}));
  EXPECT_EQ(encode(bpe, ""), Tokens{});
}

TEST(Bpe, MergesTheLeftmostOfEqualPairs) {
  const Bpe bpe(
      {.vocab = {{"a", 0}, {"aa", 1}, {"aaaa", 2}},
       .merges = {{"a", "a"}, {"aa", "aa"}}});
  EXPECT_EQ(encode(bpe, "aaa"), (Tokens{1, 0}));
  EXPECT_EQ(encode(bpe, "aaaaaaa"), (Tokens{2, 1, 0}));
}

TEST(Bpe, TakesWholeWordsWhereMergesAreIgnored) {
  BpeOptions options = small();
  options.vocab.emplace_back("cab", 9);
  EXPECT_EQ(encode(Bpe(options), "cab"), (Tokens{2, 4}));
  options.ignore_merges = true;
  EXPECT_EQ(encode(Bpe(options), "cab"), Tokens{9});
  EXPECT_EQ(encode(Bpe(options), "cabc"), (Tokens{2, 5}));
}

/// Merges one pair at a time over the whole word, as the method is defined.
Tokens merged_by_hand(const BpeOptions& options, const std::string& word) {
  std::vector<std::string> parts;
  for (const char letter : word)
    parts.emplace_back(1, letter);
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [left, right] : options.merges) {
      for (size_t i = 0; i + 1 < parts.size() && !changed; ++i)
        if (parts[i] == left && parts[i + 1] == right) {
          parts[i] += right;
          parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          changed = true;
        }
      if (changed)
        break;
    }
  }
  Tokens tokens;
  for (const std::string& part : parts)
    for (const auto& [bytes, token] : options.vocab)
      if (bytes == part)
        tokens.push_back(token);
  return tokens;
}

TEST(Bpe, EqualsTheDefinition) {
  BpeOptions options = small();
  options.vocab.insert(
      options.vocab.end(),
      {{"ca", 6}, {"abca", 7}, {"cc", 8}, {"aa", 9}, {"ccaa", 10}});
  options.merges.insert(
      options.merges.end(),
      {{"c", "c"}, {"a", "a"}, {"c", "a"}, {"abc", "a"}, {"cc", "aa"}});
  const Bpe bpe(options);
  for (int number = 0; number < 6561; ++number) {
    std::string word;
    for (int rest = number, i = 0; i < 8; ++i, rest /= 3)
      word += static_cast<char>('a' + rest % 3);
    ASSERT_EQ(encode(bpe, word), merged_by_hand(options, word)) << word;
  }
}

// In proportion to n squared this would take a day.
TEST(Bpe, IsFastForLongWords) {
  BpeOptions options{.vocab = {{"a", 0}}};
  std::string token = "a";
  for (int64_t i = 1; i < 8; ++i) {
    options.merges.emplace_back(token, token);
    token += token;
    options.vocab.emplace_back(token, i);
  }
  const auto start = std::chrono::steady_clock::now();
  const Tokens tokens = encode(Bpe(options), std::string(1 << 20, 'a'));
  EXPECT_EQ(tokens, Tokens((1 << 20) / 128, 7));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Bpe, RefusesWhatDoesNotFit) {
  const auto refusal = [](const BpeOptions& options) {
    return message_of<InvalidArgument>([&] { Bpe bpe(options); });
  };
  BpeOptions options = small();
  options.merges.emplace_back("c", "a");
  EXPECT_TRUE(contains(refusal(options), "got merge 3, \"c\" and \"a\""));
  options = small();
  options.merges.emplace_back("x", "a");
  EXPECT_TRUE(contains(refusal(options), "got merge 3, \"x\" and \"a\""));
  options = small();
  options.vocab.emplace_back("d", 3);
  EXPECT_TRUE(contains(refusal(options), "got 3 for both \"bc\" and \"d\""));
  for (const int64_t token : {int64_t{-1}, int64_t{10'000'000}}) {
    options = small();
    options.vocab.emplace_back("d", token);
    EXPECT_TRUE(contains(refusal(options), text("got ", token, " for \"d\"")));
  }
  const Bpe bpe(small());
  EXPECT_TRUE(bpe.has_byte('a'));
  EXPECT_FALSE(bpe.has_byte('x'));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { encode(bpe, "abx"); }), "got byte 120"));
}

}  // namespace
}  // namespace trireme::data
