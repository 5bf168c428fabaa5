#include "trireme/data/tokenizer.h"

#include <array>

#include <gtest/gtest.h>

#include "tokenizer_case.h"
#include "trireme/core/error.h"
#include "trireme/data/token_file.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;

/// A letter is a token; they come one at a time.
class Words : public Tokenizer {
 public:
  void encode_to(std::string_view text, const TokenSink& sink) const override {
    for (const char letter : text) {
      const int64_t token = letter - 'a';
      sink({&token, 1});
    }
  }
  std::string decode(std::span<const int64_t> /*tokens*/) const override { return ""; }
  int64_t vocab_size() const override { return 26; }
  std::string_view kind() const override { return "words"; }
  std::string to_json() const override { return "{}"; }
};

TEST(Tokenizer, CollectsWhatComesInParts) {
  const Words tokenizer;
  EXPECT_EQ(tokenizer.encode("cab"), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(tokenizer.encode_prompt("cab"), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
}

TEST(LoadTokenizer, ReadsAFileOrAModelsFolder) {
  const testing::ScratchFolder folder;
  const auto path = folder.write("tokenizer.json", tokenizer_case().dump());
  for (const auto& place : {path, folder.path()})
    EXPECT_EQ(load_tokenizer(place)->encode("hell"), std::vector<int64_t>{258});
}

TEST(LoadTokenizer, NamesTheFileThatItCannotRead) {
  const testing::ScratchFolder folder;
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { load_tokenizer(folder.path()); }),
      "tokenizer.json\", got: No such file"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { load_tokenizer(folder.write("a.json", "{")); }),
      "a.json\": expected the JSON of a tokenizer"));
}

TEST(LoadTokenizer, TokenizesAFile) {
  const testing::ScratchFolder folder;
  const auto tokenizer = parse_tokenizer(tokenizer_case().dump(), "t.json");
  const std::array paths{folder.write("a", "hell hell"), folder.write("b", "he")};
  const TokenFile file = tokenize_file(paths, *tokenizer);
  EXPECT_EQ(file.describe(), "2 times text file, bpe, uint16, 4 tokens");
  std::vector<int64_t> tokens(4);
  file.read(0, tokens, tokenizer->vocab_size());
  EXPECT_EQ(tokens, (std::vector<int64_t>{258, 259, 300, 256}));
}

}  // namespace
}  // namespace trireme::data
