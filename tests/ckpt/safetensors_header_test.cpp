#include "trireme/ckpt/safetensors_header.h"

#include <cstring>

#include "helpers.h"

namespace trireme::ckpt {
namespace {

std::string framed(const std::string& json, uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + json;
}

SafetensorsHeader parse(const std::string& json, uint64_t data_bytes) {
  const std::string bytes = framed(json, json.size());
  return parse_safetensors_header(bytes, bytes.size() + data_bytes, "a.safetensors");
}

TEST(SafetensorsHeader, ReadsTensorsInTheOrderOfTheirBytes) {
  const auto header = parse(
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},)"
      R"("none":{"dtype":"I64","shape":[0,4],"data_offsets":[2,2]},)"
      R"("__metadata__":{"format":"pt"}}   )",
      26);
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "none");
  EXPECT_EQ(header.tensors[1].bytes(), 0U);
  EXPECT_EQ(header.tensors[2].sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[2].dtype, c10::ScalarType::Float);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, AFileMayHaveNoTensors) {
  EXPECT_TRUE(parse("{}", 0).tensors.empty());
}

struct Wrong {
  const char* json;
  uint64_t data_bytes;
  const char* part;
};

class WrongHeader : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongHeader, IsRefusedByName) {
  const std::string message =
      refusal([] { parse(GetParam().json, GetParam().data_bytes); });
  expect_part(message, "a.safetensors");
  expect_part(message, GetParam().part);
}

INSTANTIATE_TEST_SUITE_P(
    SafetensorsHeader,
    WrongHeader,
    ::testing::Values(
        Wrong{"", 0, "expected JSON"},
        Wrong{"[]", 0, "expected an object, got a list of 0"},
        Wrong{"{\"a\":", 0, "expected JSON"},
        Wrong{"{\"a\":3}", 0, "tensor \"a\": expected an object, got 3"},
        Wrong{R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4, "a member \"dtype\""},
        Wrong{R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "a member \"shape\""},
        Wrong{R"({"a":{"dtype":"F32","shape":[]}})", 4, "a member \"data_offsets\""},
        Wrong{
            R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})",
            4,
            "tensor \"a\": expected a dtype among F64, F32"},
        Wrong{R"({"a":{"dtype":7,"shape":[],"data_offsets":[0,4]}})", 4, "got 7"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})",
            4,
            "\"shape\" to be a list"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
            4,
            "each size to be a whole number from 0 to 9223372036854775807, got -1"},
        Wrong{R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "1.5"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})",
            4,
            "got 9223372036854775808"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
            R"("data_offsets":[0,0]}})",
            0,
            "sizes whose product fits in 63 bits"},
        Wrong{
            // 2^62 elements of 4 bytes are 2^64 bytes, which is 0
            R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})",
            0,
            "sizes whose product fits in 63 bits"},
        Wrong{// no bytes, but strides that overflow
              R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],)"
              R"("data_offsets":[0,0]}})",
              0,
              "sizes whose product fits in 63 bits"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0]}})",
            4,
            "\"data_offsets\" to be two numbers"},
        Wrong{R"({"a":{"dtype":"F32","shape":[],"data_offsets":[-4,0]}})", 4, "got -4"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[],"data_offsets":[4,0]}})",
            4,
            "\"data_offsets\" in order, got 4 before 0"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
            4,
            "expected 8 bytes, as dtype and shape say, got 4 bytes"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})",
            8,
            "tensor \"a\": expected its bytes to begin at 0"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
            R"("b":{"dtype":"F32","shape":[],"data_offsets":[2,6]}})",
            6,
            "tensor \"b\": expected its bytes to begin at 4"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
            R"("b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})",
            12,
            "tensor \"b\": expected its bytes to begin at 4"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
            3,
            "expected 4 bytes of data, as its header says, got 3; the file is cut "
            "short"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
            5,
            "something after its last tensor"},
        Wrong{
            R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
            R"("a":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})",
            8,
            "\"a\" twice"},
        Wrong{"{\"__metadata__\":[]}", 0, "\"__metadata__\" to be an object"},
        Wrong{
            "{\"__metadata__\":{\"x\":1}}", 0, "metadata \"x\" to be a text, got 1"}));

std::string refused_bytes(const std::string& bytes, uint64_t file_bytes) {
  return refusal([&] { parse_safetensors_header(bytes, file_bytes, "f"); });
}

TEST(SafetensorsHeader, TheLengthMustFitInTheFile) {
  expect_part(refused_bytes("", 0), "at least 8 bytes, got 0");
  expect_part(refused_bytes("1234567", 7), "at least 8 bytes, got 7");
  expect_part(refused_bytes(framed("{}", 3), 10), "3 bytes of header, got 2");
  expect_part(refused_bytes(framed("{}", ~uint64_t{0}), 10), "at most 100000000 bytes");
  expect_part(
      refused_bytes(framed("{}", kMostHeaderBytes + 1), ~uint64_t{0}),
      "no safetensors");
  // The caller has not read far enough.
  expect_part(refused_bytes(framed("{}", 3), 100), "expected 11 bytes to read, got 10");
}

TEST(SafetensorsHeader, WhatIsWrittenComesBackAligned) {
  SafetensorsHeader header{
      .tensors =
          {{.name = "b\u00fc \"x\"", .dtype = c10::ScalarType::Byte, .sizes = {3}},
           {.name = "c", .dtype = c10::ScalarType::Double, .sizes = {}},
           {.name = "a", .dtype = c10::ScalarType::Byte, .sizes = {0, 5}},
           {.name = "d", .dtype = c10::ScalarType::BFloat16, .sizes = {2, 2}}},
      .metadata = {{"format", "pt"}, {"k", "v"}}};
  lay_out(header, "f");
  EXPECT_EQ(header.tensors[0].name, "c");
  EXPECT_EQ(header.tensors[1].name, "d");
  const std::string bytes = write_safetensors_header(header, "f");
  EXPECT_EQ(bytes.size() % 8, 0U);
  const uint64_t data = header.tensors.back().end;
  EXPECT_EQ(data, 8U + 8 + 3);
  const auto back = parse_safetensors_header(bytes, bytes.size() + data, "f");
  EXPECT_EQ(back.tensors, header.tensors);
  EXPECT_EQ(back.metadata, header.metadata);
  EXPECT_EQ(back.data_begin, bytes.size());
}

TEST(SafetensorsHeader, RefusesToWriteNamesThatCannotBeRead) {
  const auto refused = [](const std::string& a, const std::string& b) {
    return refusal([&] {
      SafetensorsHeader header{.tensors = {{.name = a}, {.name = b}}};
      lay_out(header, "f");
      write_safetensors_header(header, "f");
    });
  };
  expect_part(refused("a", "a"), "tensor \"a\": expected each name once");
  expect_part(refused("a", "__metadata__"), "keeps for itself");
  expect_part(refused("a", "\xff"), "UTF-8");
}

TEST(SafetensorsHeader, KnowsTheFormatsDtypes) {
  EXPECT_STREQ(safetensors_dtype(c10::ScalarType::BFloat16), "BF16");
  expect_part(
      refusal([] { safetensors_dtype(c10::ScalarType::ComplexDouble); }),
      "got ComplexDouble; convert the tensor first");
}

}  // namespace
}  // namespace trireme::ckpt
