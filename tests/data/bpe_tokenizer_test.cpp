#include "trireme/data/bpe_tokenizer.h"

#include <thread>

#include <gtest/gtest.h>

#include "tokenizer_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using nlohmann::json;
using testing::contains;
using testing::message_of;
using Tokens = std::vector<int64_t>;

std::shared_ptr<const Tokenizer> make(const json& file) {
  return parse_tokenizer(file.dump(), "t.json");
}

std::shared_ptr<const Tokenizer> changed(
    const std::string& pointer, const json& value, json file = tokenizer_case()) {
  file[json::json_pointer(pointer)] = value;
  return make(file);
}

TEST(BpeTokenizer, EncodesAndDecodes) {
  const auto tokenizer = make(tokenizer_case());
  EXPECT_EQ(tokenizer->encode("hello hello"), (Tokens{258, 'o', 259, 'o'}));
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>b"), (Tokens{'a', 300, 'b'}));
  EXPECT_EQ(tokenizer->encode("é"), (Tokens{0xc3, 0xa9}));
  EXPECT_EQ(tokenizer->encode(""), Tokens{});
  EXPECT_EQ(
      tokenizer->decode(Tokens{258, 'o', 300, 259, 0xc3, 0xa9}),
      "hello<|endoftext|> hellé");
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->end_of_text(), 300);
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(json::parse(tokenizer->to_json()), tokenizer_case());
}

TEST(BpeTokenizer, PutsItsTemplateAroundPromptsOnly) {
  const auto tokenizer = changed("/post_processor", start_template());
  EXPECT_EQ(tokenizer->encode("a"), (Tokens{'a'}));
  EXPECT_EQ(tokenizer->encode_prompt("a"), (Tokens{300, 'a'}));
}

TEST(BpeTokenizer, AddsTheSpaceThatTheFileAsksFor) {
  const auto tokenizer = changed("/pre_tokenizer/add_prefix_space", true);
  EXPECT_EQ(tokenizer->encode("hell"), Tokens{259});
  EXPECT_EQ(tokenizer->encode(" hell"), Tokens{259});
  EXPECT_EQ(tokenizer->encode("hell<|endoftext|>hell"), (Tokens{259, 300, 259}));
  EXPECT_EQ(tokenizer->encode(""), Tokens{});
}

TEST(BpeTokenizer, ReplacesWhatIsNoUtf8) {
  const auto tokenizer = make(tokenizer_case());
  EXPECT_EQ(
      tokenizer->encode("a\xff"
                        "b"),
      (Tokens{'a', 0xef, 0xbf, 0xbd, 'b'}));
  EXPECT_EQ(tokenizer->decode(Tokens{0xc3}), "\xc3");  // half a character stays
}

TEST(BpeTokenizer, NormalizesTextWhereTheFileAsksForIt) {
  const auto plain = make(tokenizer_case());
  const auto tokenizer = changed("/normalizer", {{"type", "NFC"}});
  EXPECT_EQ(tokenizer->encode("hellé漢"), plain->encode("hellé漢"));
  EXPECT_EQ(tokenizer->encode("he\u0301"), plain->encode("h\u00e9"));
  EXPECT_NE(plain->encode("he\u0301"), plain->encode("h\u00e9"));
  // A special token is found before, a normalized one after.
  json added = tokenizer_case();
  added["added_tokens"][0]["content"] = "<e\u0301>";
  EXPECT_EQ(
      changed("/normalizer", {{"type", "NFC"}}, added)->encode("<e\u0301>"),
      Tokens{300});
  added["added_tokens"][0]["normalized"] = true;
  const auto late = changed("/normalizer", {{"type", "NFC"}}, added);
  EXPECT_EQ(late->encode("<e\u0301>"), Tokens{300});
  EXPECT_EQ(late->encode("<\u00e9>"), Tokens{300});
}

TEST(BpeTokenizer, LooksForNormalizedTokensLast) {
  json file = tokenizer_case();
  json other = file["added_tokens"][0];
  other["id"] = 301;
  other["content"] = "text";
  other["normalized"] = true;
  file["added_tokens"].push_back(other);
  const auto tokenizer = make(file);
  EXPECT_EQ(tokenizer->encode("<|endoftext|>"), Tokens{300});
  EXPECT_EQ(tokenizer->encode("xtext"), (Tokens{'x', 301}));
}

TEST(BpeTokenizer, TakesTokensThatAreNotWrittenInBytes) {
  json file = tokenizer_case();
  file["model"]["vocab"]["▁odd one"] = 260;
  const auto tokenizer = make(file);
  EXPECT_EQ(tokenizer->decode(Tokens{260}), "▁odd one");
}

TEST(BpeTokenizer, RefusesTokensThatAreNone) {
  const auto tokenizer = make(tokenizer_case());
  for (const int64_t token : {int64_t{-1}, int64_t{270}, int64_t{301}})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { tokenizer->decode(Tokens{token}); }),
        text("expected tokens of the vocabulary, below 301, got ", token)));
}

TEST(BpeTokenizer, RefusesNumbersThatClash) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { changed("/added_tokens/0/id", 256); }),
      "got 256 for \"<|endoftext|>\", which another token has"));
  json file = tokenizer_case();
  file["model"]["vocab"]["<|endoftext|>"] = 260;
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { make(file); }),
      "got 300 for \"<|endoftext|>\", which has another number already"));
  file["added_tokens"][0]["id"] = 260;
  EXPECT_EQ(make(file)->vocab_size(), 261);
  file["model"]["vocab"]["▁odd"] = 260;
  message_of<InvalidArgument>([&] { make(file); });
}

TEST(BpeTokenizer, WantsAllBytesWhereUnknownOnesAreHandled) {
  json file = tokenizer_case();
  file["model"]["vocab"].erase("z");
  const auto tokenizer = make(file);
  EXPECT_EQ(tokenizer->encode("hell"), Tokens{258});
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { tokenizer->encode("zoo"); }), "got byte 122"));
  for (const char* field : {"/model/unk_token", "/model/byte_fallback"}) {
    const json value =
        std::string(field) == "/model/unk_token" ? json("<unk>") : json(true);
    EXPECT_EQ(changed(field, value)->encode("hell"), Tokens{258});
    EXPECT_TRUE(contains(
        message_of<NotSupported>([&] { changed(field, value, file); }),
        "field model.vocab: expected a token for each byte"));
  }
}

TEST(BpeTokenizer, IsTheByteTokenizerToo) {
  const auto tokenizer = parse_tokenizer(byte_tokenizer()->to_json(), "t.json");
  const std::string text = "Hello, wörld\n\n  漢 😀";
  EXPECT_EQ(tokenizer->encode(text), byte_tokenizer()->encode(text));
  EXPECT_EQ(tokenizer->vocab_size(), 256);
}

TEST(BpeTokenizer, ServesManyThreads) {
  const auto tokenizer = make(tokenizer_case());
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += i % 3 == 0 ? "hello " : "help ";
  const Tokens wanted = tokenizer->encode(text);
  EXPECT_GT(wanted.size(), 4096U);
  std::vector<std::thread> threads;
  std::vector<Tokens> got(4);
  for (Tokens& tokens : got)
    threads.emplace_back([&] { tokens = tokenizer->encode(text); });
  for (std::thread& thread : threads)
    thread.join();
  for (const Tokens& tokens : got)
    EXPECT_EQ(tokens, wanted);
}

}  // namespace
}  // namespace trireme::data
