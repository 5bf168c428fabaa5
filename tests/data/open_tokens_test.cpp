#include <array>

#include <gtest/gtest.h>

#include "token_case.h"
#include "trireme/core/error.h"
#include "trireme/data/token_file.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;
using testing::ScratchFolder;
using Tokens = std::vector<int64_t>;

Tokens all_of(const TokenFile& file) {
  Tokens tokens(static_cast<size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

std::string refusal(
    const std::filesystem::path& path, TokenFormat format = TokenFormat::Auto) {
  return message_of<InvalidArgument>([&] { open_tokens(path, {.format = format}); });
}

TEST(OpenTokens, ReadsNanoGpt) {
  const ScratchFolder folder;
  const auto path = folder.write("train.bin", raw<uint16_t>({50256, 1, 65535}));
  EXPECT_EQ(guess_format(path), TokenFormat::NanoGpt);
  const TokenFile file = open_tokens(path);
  EXPECT_EQ(all_of(file), (Tokens{50256, 1, 65535}));
  EXPECT_EQ(file.describe(), "nanoGPT file, uint16, 3 tokens");
}

TEST(OpenTokens, ReadsLlmC) {
  const ScratchFolder folder;
  const auto path = folder.write(
      "a.bin", llm_c_header(20240801, 7, 1000) + raw<uint32_t>(counting(1000, 100000)));
  EXPECT_EQ(guess_format(path), TokenFormat::LlmC);
  const TokenFile file = open_tokens(path);
  EXPECT_EQ(all_of(file), counting(1000, 100000));
  EXPECT_EQ(file.describe(), "llm.c file, uint32, 1,000 tokens");
}

TEST(OpenTokens, ReadsMegatronByAnyOfItsNames) {
  const ScratchFolder folder;
  folder.write("text_document.bin", raw<int32_t>(counting(9)));
  folder.write("text_document.idx", IndexCase::of({7, 2}, 4, 4).bytes());
  for (const char* name : {"text_document", "text_document.bin", "text_document.idx"}) {
    EXPECT_EQ(guess_format(folder.path() / name), TokenFormat::Megatron);
    const TokenFile file = open_tokens(folder.path() / name);
    EXPECT_EQ(all_of(file), counting(9));
    EXPECT_EQ(
        file.describe(),
        "Megatron file of 2 sequences in 2 documents, int32, 9 tokens");
  }
}

TEST(OpenTokens, JoinsShards) {
  const ScratchFolder folder;
  const std::array paths{
      folder.write("a.bin", llm_c_header(20240520, 1, 3) + raw<uint16_t>({0, 1, 2})),
      folder.write("b.bin", llm_c_header(20240520, 1, 2) + raw<uint16_t>({3, 4}))};
  const TokenFile file = open_tokens(paths);
  EXPECT_EQ(all_of(file), counting(5));
  EXPECT_EQ(file.describe(), "2 times llm.c file, uint16, 5 tokens");
  message_of<InvalidArgument>(
      [] { open_tokens(std::span<const std::filesystem::path>{}); });
}

TEST(OpenTokens, ReadsWhatIsAskedForWhateverItLooksLike) {
  const ScratchFolder folder;
  const std::string llm_c = llm_c_header(20240520, 1, 1) + raw<uint16_t>({7});
  const auto path = folder.write("odd_name", llm_c);
  EXPECT_EQ(all_of(open_tokens(path, {.format = TokenFormat::LlmC})), Tokens{7});
  EXPECT_EQ(open_tokens(path, {.format = TokenFormat::NanoGpt}).size(), 513);
}

TEST(OpenTokens, SaysWhatWasFoundInstead) {
  const ScratchFolder folder;
  EXPECT_TRUE(
      contains(refusal(folder.write("a.bin", "abc")), "got an odd size of 3 bytes"));
  EXPECT_TRUE(contains(refusal(folder.write("b.bin", "")), "an empty file"));
  EXPECT_TRUE(contains(
      refusal(folder.write("c.bin", "\x93NUMPY more")),
      "expected tokens, got a NumPy"));
  EXPECT_TRUE(contains(
      refusal(folder.write("d.txt", "text")),
      "which is text; read it with a tokenizer"));
  EXPECT_TRUE(
      contains(refusal(folder.path() / "a.bin", TokenFormat::Text), "which is text"));
  EXPECT_TRUE(contains(
      refusal(folder.path() / "a.bin", TokenFormat::LlmC), "1024 bytes of header"));
  EXPECT_TRUE(contains(
      refusal(folder.path() / "a.bin", TokenFormat::Megatron),
      "a.idx\", got: No such"));
  EXPECT_TRUE(
      contains(refusal(folder.path() / "none.bin"), "none.bin\", got: No such"));
  EXPECT_TRUE(contains(
      refusal(folder.write("e.bin", llm_c_header(20240520, 1, 5) + "12")),
      "e.bin\": expected as many tokens of 2 bytes as the header says, 5, got 2"));
  folder.write("f.bin", "12");
  folder.write("f.idx", "no index");
  EXPECT_TRUE(contains(
      refusal(folder.path() / "f.bin"),
      "f.idx\": expected an index that begins with \"MMIDIDX\""));
}

}  // namespace
}  // namespace trireme::data
