#include <array>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/data/token_file.h"
#include "trireme/data/tokenizer.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;
using Tokens = std::vector<int64_t>;

Tokens all_of(const TokenFile& file) {
  Tokens tokens(static_cast<size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

/// A letter is its place after a, plus what makes the vocabulary large; 1 is the end.
class Letters : public Tokenizer {
 public:
  explicit Letters(int64_t vocab_size) : vocab_size_(vocab_size) {}
  void encode_to(std::string_view text, const TokenSink& sink) const override {
    for (const char letter : text) {
      const int64_t token = vocab_size_ - 1 - (letter - 'a');
      sink({&token, 1});
    }
  }
  std::string decode(std::span<const int64_t> /*tokens*/) const override { return ""; }
  int64_t vocab_size() const override { return vocab_size_; }
  std::optional<int64_t> end_of_text() const override { return 1; }
  std::string_view kind() const override { return "letters"; }
  std::string to_json() const override { return "{}"; }

 private:
  int64_t vocab_size_;
};

TEST(TokenizeFile, BytesAreTheFileItself) {
  const testing::ScratchFolder folder;
  const std::array paths{
      folder.write("a.txt", "ab\xff"),
      folder.write("b.txt", ""),
      folder.write("c.txt", "c")};
  const TokenFile one = tokenize_file(paths[0], *byte_tokenizer());
  EXPECT_EQ(all_of(one), (Tokens{97, 98, 255}));
  EXPECT_EQ(one.describe(), "text file, bytes, uint8, 3 tokens");
  EXPECT_EQ(all_of(tokenize_file(paths, *byte_tokenizer())), (Tokens{97, 98, 255, 99}));
}

TEST(TokenizeFile, KeepsTheNarrowestType) {
  const testing::ScratchFolder folder;
  const auto path = folder.write("a.txt", "ab");
  const std::vector<std::pair<int64_t, std::string>> types{
      {256, "uint8"}, {257, "uint16"}, {65536, "uint16"}, {65537, "uint32"}};
  for (const auto& [size, type] : types) {
    const TokenFile file = tokenize_file(path, Letters(size));
    EXPECT_EQ(all_of(file), (Tokens{size - 1, size - 2}));
    EXPECT_EQ(file.describe(), text("text file, letters, ", type, ", 2 tokens"));
  }
  EXPECT_THROW(tokenize_file(path, Letters(int64_t{1} << 33)), NotSupported);
}

TEST(TokenizeFile, PutsTheEndOfTextBetweenFiles) {
  const testing::ScratchFolder folder;
  const std::array paths{folder.write("a.txt", "a"), folder.write("b.txt", "b")};
  EXPECT_EQ(all_of(tokenize_file(paths, Letters(300))), (Tokens{299, 1, 298}));
  EXPECT_EQ(all_of(tokenize_file(paths[0], Letters(300))), (Tokens{299}));
}

TEST(TokenizeFile, RefusesNothing) {
  const testing::ScratchFolder folder;
  const auto empty = folder.write("a.txt", "");
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { tokenize_file(empty, *byte_tokenizer()); }),
      "a.txt\", which is empty"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] {
        tokenize_file(std::span<const std::filesystem::path>{}, *byte_tokenizer());
      }),
      "got no file"));
  message_of<InvalidArgument>(
      [&] { tokenize_file(folder.path() / "none", *byte_tokenizer()); });
}

}  // namespace
}  // namespace trireme::data
