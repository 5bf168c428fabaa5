#include "trireme/data/token_layout.h"

#include <gtest/gtest.h>

#include "token_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;

TEST(TokenLayout, NamesTypesAsNumpyDoes) {
  EXPECT_EQ(to_string(TokenType::U16), "uint16");
  EXPECT_EQ(to_string(TokenType::I64), "int64");
  EXPECT_EQ(bytes_of(TokenType::I8), 1U);
  EXPECT_EQ(bytes_of(TokenType::U32), 4U);
}

TEST(TokenLayout, NanoGptIsAnEvenNumberOfBytes) {
  const TokenLayout layout = parse_nano_gpt(20, "x");
  EXPECT_EQ(layout.count, 10);
  EXPECT_EQ(layout.offset, 0U);
  EXPECT_EQ(layout.type, TokenType::U16);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { parse_nano_gpt(21, "x"); }),
      "[data] \"x\": expected tokens of 2 bytes, got an odd size of 21 bytes"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { parse_nano_gpt(0, "x"); }), "an empty file"));
}

TEST(TokenLayout, LlmCHasTwoKinds) {
  const std::string gpt2 = llm_c_header(20240520, 1, 3) + raw<uint16_t>({1, 2, 3});
  EXPECT_TRUE(is_llm_c(as_bytes(gpt2)));
  const TokenLayout small = parse_llm_c(as_bytes(gpt2), "x");
  EXPECT_EQ(small.type, TokenType::U16);
  EXPECT_EQ(small.offset, 1024U);
  EXPECT_EQ(small.count, 3);
  const std::string llama = llm_c_header(20240801, 7, 3) + raw<uint32_t>({1, 2, 3});
  EXPECT_TRUE(is_llm_c(as_bytes(llama)));
  EXPECT_EQ(parse_llm_c(as_bytes(llama), "x").type, TokenType::U32);
  EXPECT_FALSE(is_llm_c(as_bytes("abcdefgh")));
  EXPECT_FALSE(is_llm_c({}));
}

TEST(TokenLayout, LlmCRefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& bytes) {
    return message_of<InvalidArgument>([&] { parse_llm_c(as_bytes(bytes), "x"); });
  };
  const std::string body = raw<uint16_t>({1, 2, 3});
  EXPECT_TRUE(contains(
      refusal(llm_c_header(20240520, 1, 3).substr(0, 1000)),
      "expected 1024 bytes of header, got 1000"));
  EXPECT_TRUE(contains(
      refusal(llm_c_header(7, 1, 3) + body),
      "expected llm.c's magic number 20240520 or 20240801, got 7"));
  EXPECT_TRUE(contains(
      refusal(llm_c_header(20240520, 7, 3) + body),
      "expected version 1 with the magic number 20240520, got 7"));
  EXPECT_TRUE(contains(
      refusal(llm_c_header(20240520, 1, 4) + body),
      "expected as many tokens of 2 bytes as the header says, 4, got 6 bytes after"));
  EXPECT_TRUE(contains(refusal(llm_c_header(20240520, 1, 2) + body), "got 6 bytes"));
  EXPECT_TRUE(contains(refusal(llm_c_header(20240520, 1, -3) + body), "-3"));
  EXPECT_TRUE(contains(refusal(llm_c_header(20240520, 1, 0)), "says, 0, got 0 bytes"));
}

TEST(TokenLayout, KnowsForeignFiles) {
  EXPECT_EQ(foreign_kind(as_bytes("\x93NUMPY")), "a NumPy file");
  EXPECT_EQ(
      foreign_kind(as_bytes("PK\x03\x04 and more")).substr(0, 13), "a zip archive");
  EXPECT_EQ(foreign_kind(as_bytes(llm_c_header(20240326, 3, 0))), "a model of llm.c");
  EXPECT_EQ(
      foreign_kind(as_bytes(llm_c_header(20240522, 1, 0))),
      "an evaluation file of llm.c");
  EXPECT_EQ(foreign_kind(as_bytes(llm_c_header(20240520, 1, 0))), "");
  EXPECT_EQ(foreign_kind(as_bytes(raw<uint16_t>({50256, 1, 2}))), "");
  EXPECT_EQ(foreign_kind({}), "");
}

}  // namespace
}  // namespace trireme::data
