#include "trireme/data/token_file.h"

#include <limits>

#include <gtest/gtest.h>

#include "token_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;
using Tokens = std::vector<int64_t>;

Tokens read(const TokenFile& file, int64_t begin, int64_t count, int64_t vocab = 0) {
  Tokens tokens(static_cast<size_t>(count));
  file.read(begin, tokens, vocab);
  return tokens;
}

template <class Stored>
TokenPiece piece(TokenType type, const Tokens& tokens, const std::string& name = "x") {
  const auto bytes = std::make_shared<const std::string>(raw<Stored>(tokens));
  return {
      .owner = bytes,
      .data = as_bytes(*bytes).data(),
      .type = type,
      .count = static_cast<int64_t>(tokens.size()),
      .name = name};
}

TEST(TokenFile, ReadsTokensOfAVector) {
  const TokenFile file(counting(10));
  EXPECT_EQ(file.size(), 10);
  EXPECT_EQ(read(file, 3, 4), counting(4, 3));
  EXPECT_EQ(read(file, 10, 0), Tokens{});
  EXPECT_EQ(file.describe(), "tokens in memory, int64, 10 tokens");
}

TEST(TokenFile, ReadsEveryType) {
  constexpr int64_t kMost8 = 127, kMost16 = 32767, kMost32 = 2147483647;
  const auto check = [](const TokenPiece& one, const Tokens& tokens) {
    EXPECT_EQ(read(TokenFile({one}, "k"), 0, one.count), tokens) << to_string(one.type);
  };
  check(piece<uint8_t>(TokenType::U8, {0, 255}), {0, 255});
  check(piece<int8_t>(TokenType::I8, {0, kMost8}), {0, kMost8});
  check(piece<uint16_t>(TokenType::U16, {0, 65535}), {0, 65535});
  check(piece<int16_t>(TokenType::I16, {0, kMost16}), {0, kMost16});
  check(piece<uint32_t>(TokenType::U32, {0, 4294967295}), {0, 4294967295});
  check(piece<int32_t>(TokenType::I32, {0, kMost32}), {0, kMost32});
  check(piece<int64_t>(TokenType::I64, {0, 1L << 62}), {0, 1L << 62});
}

TEST(TokenFile, ReadsPiecesAsOneRow) {
  const TokenFile file(
      {piece<uint8_t>(TokenType::U8, counting(5)),
       piece<uint8_t>(TokenType::U8, {}),
       piece<uint16_t>(TokenType::U16, counting(4, 5)),
       piece<int64_t>(TokenType::I64, counting(1, 9))},
      "file");
  EXPECT_EQ(file.size(), 10);
  for (int64_t begin = 0; begin <= 10; ++begin)
    for (int64_t count = 0; begin + count <= 10; ++count)
      EXPECT_EQ(read(file, begin, count), counting(count, begin));
  EXPECT_EQ(file.describe(), "4 times file, uint8 and uint16 and int64, 10 tokens");
}

TEST(TokenFile, RefusesPlacesOutside) {
  const TokenFile file(counting(10));
  const auto refusal = [&](int64_t begin, int64_t count) {
    return message_of<InvalidArgument>([&] { read(file, begin, count); });
  };
  EXPECT_TRUE(contains(
      refusal(7, 4),
      "expected a place within 10 tokens, got 4 tokens from position 7"));
  EXPECT_TRUE(contains(refusal(-1, 1), "from position -1"));
  EXPECT_TRUE(contains(refusal(11, 0), "from position 11"));
  refusal(std::numeric_limits<int64_t>::max(), 2);
}

TEST(TokenFile, NamesTheTokenThatIsOutsideTheVocabulary) {
  const TokenFile file(
      {piece<uint16_t>(TokenType::U16, {1, 2, 3}, "first.bin"),
       piece<uint16_t>(TokenType::U16, {4, 5, 300, 400}, "second.bin")},
      "file");
  EXPECT_EQ(read(file, 0, 7), (Tokens{1, 2, 3, 4, 5, 300, 400}));
  EXPECT_EQ(read(file, 0, 7, 401).size(), 7U);
  EXPECT_EQ(read(file, 0, 5, 300).size(), 5U);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { read(file, 1, 6, 300); }),
      "[data] \"second.bin\": expected tokens from 0 to 299, got 300 at position 2"));
}

TEST(TokenFile, RefusesNegativeTokensAlways) {
  const TokenFile file({piece<int32_t>(TokenType::I32, {5, -100}, "x.bin")}, "file");
  EXPECT_EQ(read(file, 0, 1), Tokens{5});
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { read(file, 0, 2); }),
      "\"x.bin\": expected tokens of at least 0, got -100 at position 1"));
}

}  // namespace
}  // namespace trireme::data
