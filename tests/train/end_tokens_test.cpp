#include "trireme/train/end_tokens.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::train {
namespace {

using Ids = std::vector<int64_t>;

TEST(EndTokens, AreThoseOfTheFirstFile) {
  const testing::ScratchFolder folder;
  EXPECT_EQ(end_tokens(folder.path(), nullptr), Ids{});
  folder.write("config.json", R"({"eos_token_id": 2})");
  EXPECT_EQ(end_tokens(folder.path(), nullptr), Ids{2});
  folder.write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(end_tokens(folder.path(), nullptr), Ids{}) << "it says that there is none";
  folder.write("generation_config.json", R"({"eos_token_id": [5, 7]})");
  EXPECT_EQ(end_tokens(folder.path(), nullptr), (Ids{5, 7}));
}

TEST(EndTokens, FallBackToTheTokenizer) {
  const testing::ScratchFolder folder;
  folder.write("config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(end_tokens(folder.path(), data::byte_tokenizer().get()), Ids{});
  const auto file = folder.write(
      "tokenizer.json",
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
          "decoder": {"type": "ByteLevel"},
          "added_tokens": [{"id": 2, "content": "<|endoftext|>", "special": true}]})");
  EXPECT_EQ(end_tokens(folder.path(), data::load_tokenizer(file).get()), Ids{2});
}

TEST(EndTokens, RefusesFilesThatAreWrong) {
  const testing::ScratchFolder folder;
  for (const char* content : {"[1]", "{", R"({"eos_token_id": "x"})"}) {
    folder.write("config.json", content);
    EXPECT_TRUE(testing::contains(
        testing::message_of<InvalidArgument>(
            [&] { end_tokens(folder.path(), nullptr); }),
        "expected eos_token_id in "))
        << content;
  }
}

}  // namespace
}  // namespace trireme::train
