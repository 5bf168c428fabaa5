#include "trireme/data/tokenizer_spec.h"

#include <functional>

#include <gtest/gtest.h>

#include "tokenizer_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using nlohmann::json;
using testing::contains;
using testing::message_of;

TokenizerSpec parse(const json& file) {
  return parse_tokenizer_spec(file.dump(), "t.json");
}

TokenizerSpec changed(const std::string& pointer, const json& value) {
  json file = tokenizer_case();
  file[json::json_pointer(pointer)] = value;
  return parse(file);
}

std::string not_supported(const std::string& pointer, const json& value) {
  return message_of<NotSupported>([&] { changed(pointer, value); });
}

std::string damaged(const std::string& pointer, const json& value) {
  return message_of<InvalidArgument>([&] { changed(pointer, value); });
}

TEST(TokenizerSpec, ReadsAGpt2File) {
  const TokenizerSpec spec = parse(tokenizer_case());
  EXPECT_EQ(spec.vocab.size(), 260U);
  ASSERT_EQ(spec.merges.size(), 4U);
  EXPECT_EQ(spec.merges[3], std::pair(std::string("Ġ"), std::string("hell")));
  ASSERT_EQ(spec.added.size(), 1U);
  EXPECT_EQ(spec.added[0].token, 300);
  EXPECT_EQ(spec.added[0].content, "<|endoftext|>");
  EXPECT_FALSE(spec.added[0].normalized);
  EXPECT_EQ(spec.splitters, std::vector{Splitter::Gpt2});
  EXPECT_FALSE(spec.add_prefix_space);
  EXPECT_FALSE(spec.nfc);
  EXPECT_FALSE(spec.ignore_merges);
  EXPECT_FALSE(spec.handles_unknown);
  EXPECT_TRUE(spec.before.empty() && spec.after.empty());
}

TEST(TokenizerSpec, ReadsMergesOfBothForms) {
  const TokenizerSpec spec = changed(
      "/model/merges",
      json::parse(R"([["h", "e"], ["l", "l"], ["he", "ll"], ["Ġ", "hell"]])"));
  EXPECT_EQ(spec.merges, parse(tokenizer_case()).merges);
}

TEST(TokenizerSpec, ReadsPreTokenizers) {
  const auto splitters = [](const json& value) {
    return changed("/pre_tokenizer", value).splitters;
  };
  EXPECT_EQ(
      splitters(split_sequence(R"(\p{N}{1,3})")), std::vector{Splitter::ThreeNumbers});
  EXPECT_EQ(
      splitters({{"type", "ByteLevel"}, {"use_regex", false}}),
      std::vector<Splitter>{});
  const json smol{
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  EXPECT_EQ(splitters(smol), (std::vector{Splitter::EachDigit, Splitter::Gpt2}));
  EXPECT_TRUE(changed("/pre_tokenizer", {{"type", "ByteLevel"}}).add_prefix_space);
  json gpt4 = split_sequence(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  gpt4["pretokenizers"][0]["behavior"] = "Removed";
  gpt4["pretokenizers"][0]["invert"] = true;
  EXPECT_EQ(splitters(gpt4), std::vector{Splitter::Gpt2});
}

TEST(TokenizerSpec, ReadsPostProcessors) {
  EXPECT_TRUE(changed("/post_processor", {{"type", "ByteLevel"}}).before.empty());
  EXPECT_EQ(
      changed("/post_processor", start_template()).before, std::vector<int64_t>{300});
  json both{
      {"type", "Sequence"},
      {"processors", {{{"type", "ByteLevel"}}, start_template()}}};
  EXPECT_EQ(changed("/post_processor", both).before, std::vector<int64_t>{300});
  json end = start_template();
  std::swap(end["single"][0], end["single"][1]);
  EXPECT_EQ(changed("/post_processor", end).after, std::vector<int64_t>{300});
  both["processors"].push_back(start_template());
  EXPECT_TRUE(contains(not_supported("/post_processor", both), "one \"Template"));
}

TEST(TokenizerSpec, ReadsNormalizers) {
  EXPECT_TRUE(changed("/normalizer", {{"type", "NFC"}}).nfc);
  EXPECT_FALSE(
      changed("/normalizer", {{"type", "Sequence"}, {"normalizers", json::array()}})
          .nfc);
  EXPECT_TRUE(
      changed(
          "/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}})
          .nfc);
}

TEST(TokenizerSpec, NamesFieldAndValueOfWhatItCannotDo) {
  EXPECT_TRUE(contains(
      not_supported("/model/type", "WordPiece"),
      "[data] \"t.json\", field model.type: expected \"BPE\", got \"WordPiece\"; "
      "tokenize with another program and train on its .bin file"));
  EXPECT_TRUE(contains(not_supported("/model/dropout", 0.1), "field model.dropout"));
  EXPECT_TRUE(contains(
      not_supported("/model/end_of_word_suffix", "</w>"),
      "field model.end_of_word_suffix: expected none, got \"</w>\""));
  EXPECT_TRUE(contains(
      not_supported("/normalizer", {{"type", "NFKC"}}),
      "field normalizer.type: expected none or \"NFC\", got \"NFKC\""));
  EXPECT_TRUE(contains(
      not_supported(
          "/normalizer",
          {{"type", "Sequence"}, {"normalizers", {{{"type", "Strip"}}}}}),
      "field normalizer.normalizers[0].type"));
  EXPECT_TRUE(contains(
      not_supported("/added_tokens/0/single_word", true),
      "field added_tokens[0].single_word: expected false, got true"));
  EXPECT_TRUE(contains(not_supported("/decoder", nullptr), "field decoder"));
  EXPECT_TRUE(contains(
      not_supported("/decoder", {{"type", "Metaspace"}}), "got \"Metaspace\""));
  EXPECT_TRUE(contains(
      not_supported("/post_processor", {{"type", "BertProcessing"}}),
      "field post_processor.type"));
}

TEST(TokenizerSpec, NamesThePatternThatItDoesNotKnow) {
  const auto refusal = [](const json& value) {
    return not_supported("/pre_tokenizer", value);
  };
  EXPECT_TRUE(
      contains(refusal(nullptr), "field pre_tokenizer: expected \"ByteLevel\""));
  EXPECT_TRUE(contains(
      refusal(split_sequence("[a-z]+")),
      "field pre_tokenizer.pretokenizers[0].pattern.Regex: expected the pattern of "
      "GPT-2, Llama 3, Qwen 2 or DeepSeek V3, letter by letter, got \"[a-z]+\""));
  json string = split_sequence("x");
  string["pretokenizers"][0]["pattern"] = {{"String", " "}};
  EXPECT_TRUE(contains(refusal(string), "expected a \"Regex\""));
  json merged = split_sequence(R"(\p{N}{1,3})");
  merged["pretokenizers"][0]["behavior"] = "MergedWithNext";
  EXPECT_TRUE(contains(refusal(merged), "got \"MergedWithNext\""));
  merged["pretokenizers"][0]["behavior"] = "Removed";
  merged["pretokenizers"][0]["invert"] = true;  // would lose text
  EXPECT_TRUE(contains(refusal(merged), "got \"Removed\""));
  json space = split_sequence(R"(\p{N}{1,3})");
  space["pretokenizers"][1]["add_prefix_space"] = true;
  EXPECT_TRUE(contains(refusal(space), "add_prefix_space: expected false"));
  json swapped = split_sequence(R"(\p{N}{1,3})");
  std::swap(swapped["pretokenizers"][0], swapped["pretokenizers"][1]);
  EXPECT_TRUE(contains(refusal(swapped), "before \"ByteLevel\", got \"ByteLevel\""));
  json metaspace = split_sequence("x");
  metaspace["pretokenizers"].erase(1);
  EXPECT_TRUE(contains(refusal({{"type", "Metaspace"}}), "got \"Metaspace\""));
  metaspace["pretokenizers"].clear();
  EXPECT_TRUE(contains(refusal(metaspace), "1 to 16 parts"));
}

TEST(TokenizerSpec, RefusesDamagedFiles) {
  const auto refusal = [](const std::string& bytes) {
    return message_of<InvalidArgument>([&] { parse_tokenizer_spec(bytes, "t.json"); });
  };
  EXPECT_TRUE(contains(refusal(""), "got 0 bytes that are no JSON"));
  EXPECT_TRUE(contains(refusal("[1]"), "got 3 bytes that are no object"));
  EXPECT_TRUE(contains(refusal("{}"), "field model: expected an object, got null"));
  const std::string whole = tokenizer_case().dump();
  refusal(whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(contains(
      damaged("/model/vocab/he", "x"), "numbers of tokens, but \"he\" has none"));
  EXPECT_TRUE(contains(damaged("/model/vocab/he", -1), "\"he\" has none"));
  EXPECT_TRUE(contains(
      damaged("/model/vocab", json::array()),
      "field model.vocab: expected an object with tokens, got a list of 0"));
  EXPECT_TRUE(contains(
      damaged("/model/merges/1", "abc"),
      "field model.merges[1]: expected two tokens, with a space between them or in a "
      "list, got \"abc\""));
  damaged("/model/merges/1", "a b c");
  damaged("/model/merges/1", {"a"});
  damaged("/model/merges/1", {"a", 1});
  damaged("/model/merges/1", 7);
  EXPECT_TRUE(contains(damaged("/model/merges", nullptr), "expected a list, got null"));
  EXPECT_TRUE(contains(damaged("/added_tokens/0/id", "x"), "field added_tokens[0].id"));
  damaged("/added_tokens/0/content", "");
  EXPECT_TRUE(
      contains(damaged("/added_tokens/0/lstrip", 1), "expected true or false, got 1"));
}

TEST(TokenizerSpec, SurvivesDeepNesting) {
  std::string deep = tokenizer_case().dump();
  const std::string merges = R"("merges":)";
  deep.insert(
      deep.find(merges) + merges.size(),
      std::string(200000, '[') + std::string(200000, ']') + R"(,"rest":)");
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { parse_tokenizer_spec(deep, "t.json"); }),
      "field model.merges[0]"));
}

}  // namespace
}  // namespace trireme::data
