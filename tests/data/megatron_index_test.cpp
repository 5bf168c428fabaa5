#include "trireme/data/megatron_index.h"

#include <limits>

#include <gtest/gtest.h>

#include "token_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;

MegatronIndex parse(const IndexCase& index, uint64_t bin_bytes) {
  return parse_megatron(as_bytes(index.bytes()), bin_bytes, "x.idx");
}

/// The case of three sequences (12 tokens of 2 bytes) after `change`.
std::string refusal(
    const std::function<void(IndexCase&)>& change, uint64_t bin_bytes = 24) {
  IndexCase index = IndexCase::of({5, 4, 3}, 8, 2);
  change(index);
  return message_of<InvalidArgument>([&] { parse(index, bin_bytes); });
}

TEST(MegatronIndex, CountsTokensSequencesAndDocuments) {
  IndexCase index = IndexCase::of({5, 0, 4, 3}, 8, 2);
  index.documents = {0, 3, 4};
  const MegatronIndex found = parse(index, 24);
  EXPECT_EQ(found.tokens.type, TokenType::U16);
  EXPECT_EQ(found.tokens.count, 12);
  EXPECT_EQ(found.tokens.offset, 0U);
  EXPECT_EQ(found.sequences, 4);
  EXPECT_EQ(found.documents, 2);
  index.modes = "abcd";
  EXPECT_EQ(parse(index, 24).tokens.count, 12);
}

TEST(MegatronIndex, KnowsAllWholeNumbers) {
  const std::vector<std::pair<int, TokenType>> types{
      {1, TokenType::U8},
      {2, TokenType::I8},
      {3, TokenType::I16},
      {4, TokenType::I32},
      {5, TokenType::I64},
      {8, TokenType::U16}};
  for (const auto& [code, type] : types) {
    const auto size = static_cast<int64_t>(bytes_of(type));
    const MegatronIndex found = parse(
        IndexCase::of({7, 2}, static_cast<uint8_t>(code), size),
        static_cast<uint64_t>(9 * size));
    EXPECT_EQ(found.tokens.type, type);
    EXPECT_EQ(found.tokens.count, 9);
  }
  for (const int code : {0, 6, 7, 9, 255})
    EXPECT_TRUE(contains(
        refusal([&](IndexCase& index) { index.code = static_cast<uint8_t>(code); }),
        text("expected a type of whole numbers (code 1 to 5, or 8), got code ", code)));
}

TEST(MegatronIndex, RefusesAnotherHeader) {
  EXPECT_TRUE(contains(
      refusal([](IndexCase& index) { index.magic[0] = 'N'; }),
      "[data] \"x.idx\": expected an index that begins with \"MMIDIDX\""));
  EXPECT_TRUE(contains(
      refusal([](IndexCase& index) { index.version = 2; }),
      "expected version 1 of the index, got 2"));
  const std::string header = IndexCase::of({1}, 8, 2).bytes().substr(0, 20);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { parse_megatron(as_bytes(header), 2, "x"); }),
      "expected 34 bytes of header, got 20"));
}

TEST(MegatronIndex, RefusesEveryCut) {
  const std::string whole = IndexCase::of({5, 4, 3}, 8, 2).bytes();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    message_of<InvalidArgument>(
        [&] { parse_megatron(as_bytes(whole.substr(0, bytes)), 24, "x"); });
  message_of<InvalidArgument>([&] { parse_megatron(as_bytes(whole + "x"), 24, "x"); });
}

TEST(MegatronIndex, RefusesCountsThatRunOver) {
  std::string bytes = IndexCase::of({5, 4, 3}, 8, 2).bytes();
  for (const uint64_t count :
       {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 62, uint64_t{5}})
    for (const size_t place : {18U, 26U}) {
      std::string broken = bytes;
      std::memcpy(broken.data() + place, &count, sizeof count);
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>(
              [&] { parse_megatron(as_bytes(broken), 24, "x"); }),
          "after the header, got 68 bytes"));
    }
}

TEST(MegatronIndex, RefusesSequencesOutOfPlace) {
  EXPECT_TRUE(contains(
      refusal([](IndexCase& index) { index.lengths[1] = -4; }),
      "expected a length for sequence 1, got -4"));
  EXPECT_TRUE(contains(
      refusal([](IndexCase& index) { index.pointers[1] = 12; }),
      "expected sequence 1 at byte 10, where the one before it ends, got byte 12"));
  EXPECT_TRUE(contains(
      refusal([](IndexCase& index) { index.pointers[2] = -1; }), "got byte -1"));
  EXPECT_TRUE(contains(
      refusal([](IndexCase& index) { index.lengths[2] = 4; }),
      "expected sequence 2 to end within the 24 bytes of the .bin file, got an end at "
      "byte 26"));
  EXPECT_TRUE(contains(
      refusal([](IndexCase&) {}, 26),
      "expected a .bin file of 24 bytes, got one of 26 bytes"));
}

TEST(MegatronIndex, RefusesDocumentsOutOfOrder) {
  const auto with = [](std::vector<int64_t> documents) {
    return refusal([&](IndexCase& index) { index.documents = std::move(documents); });
  };
  EXPECT_TRUE(contains(with({0, 2, 1, 3}), "got 1 as entry 2"));
  EXPECT_TRUE(contains(with({1, 3}), "rise from 0 to 3, got 1 as entry 0"));
  EXPECT_TRUE(contains(with({0, 4}), "got 4 as entry 1"));
  EXPECT_TRUE(contains(
      with({0, 2}),
      "expected the last document to end at sequence 3, got an end at 2"));
}

}  // namespace
}  // namespace trireme::data
