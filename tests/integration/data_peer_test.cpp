// Tokenizers and token files are those of the `tokenizers` package and of numpy:
// tests/peer/tokenizer_cases.py writes what they do.
#include <array>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/data/nfc.h"
#include "trireme/data/token_file.h"
#include "trireme/data/tokenizer.h"
#include "trireme/data/unicode.h"
#include "trireme/data/utf8.h"
#include "trireme/testing/peer.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::data {
namespace {

using nlohmann::json;
using Tokens = std::vector<int64_t>;

/// Runs the script once for all tests.
class DataPeer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!testing::peer_missing({"tokenizers", "numpy"}).empty())
      return;
    folder_ = std::make_unique<testing::ScratchFolder>();
    testing::run_peer({TOKENIZER_CASES, DOCS_FOLDER, folder_->path().string()});
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    if (!folder_)
      GTEST_SKIP() << testing::peer_missing({"tokenizers", "numpy"});
  }

  static std::filesystem::path path(const std::string& name) {
    return folder_->path() / name;
  }
  static json read(const std::string& name) {
    std::ifstream file(path(name));
    return json::parse(file);
  }

 private:
  static std::unique_ptr<testing::ScratchFolder> folder_;
};

std::unique_ptr<testing::ScratchFolder> DataPeer::folder_;

constexpr std::array kNames{
    "gpt2", "gpt2_space", "gpt2_split", "llama3", "qwen2", "digits", "deep_seek"};

TEST_F(DataPeer, EncodesTenThousandStringsForEachOfTwoModels) {
  size_t count = 0;
  for (const std::string name : kNames) {
    const auto tokenizer = load_tokenizer(path(text(name, ".json")));
    for (const json& one : read(text(name, "_cases.json"))) {
      const auto string = one[0].get<std::string>();
      ASSERT_EQ(tokenizer->encode(string), one[1].get<Tokens>()) << name << one[0];
      ASSERT_EQ(tokenizer->encode_prompt(string), one[2].get<Tokens>())
          << name << one[0];
      ++count;
    }
  }
  EXPECT_EQ(count, 25'028U);
}

TEST_F(DataPeer, NormalizesAnyText) {
  for (const json& one : read("nfc.json"))
    ASSERT_EQ(nfc(one[0].get<std::string>()), one[1].get<std::string>()) << one[0];
}

TEST_F(DataPeer, DecodesAnyTokens) {
  for (const std::string name : kNames) {
    const auto tokenizer = load_tokenizer(path(text(name, ".json")));
    for (const json& one : read(text(name, "_decodes.json")))
      ASSERT_EQ(
          as_utf8(tokenizer->decode(one[0].get<Tokens>())), one[1].get<std::string>())
          << name << one[0];
  }
}

TEST_F(DataPeer, ReadsTokenFilesOfNumpy) {
  const json files = read("token_files.json");
  EXPECT_EQ(files.size(), 9U);
  for (const auto& [name, tokens] : files.items()) {
    const TokenFile file = open_tokens(path(text(name, ".bin")));
    Tokens got(static_cast<size_t>(file.size()));
    file.read(0, got, 120);
    EXPECT_EQ(got, tokens.get<Tokens>()) << name;
  }
}

TEST_F(DataPeer, ReplacesBytesAsPythonDoes) {
  for (const json& one : read("utf8.json")) {
    std::string bytes;
    for (const int byte : one[0])
      bytes += static_cast<char>(byte);
    ASSERT_EQ(as_utf8(bytes), one[1].get<std::string>()) << one[0];
  }
}

TEST_F(DataPeer, KnowsTheClassOfEveryCodePoint) {
  const auto runs = read("class_runs.json").get<std::vector<uint32_t>>();
  for (size_t i = 0; i < runs.size(); ++i) {
    const uint32_t end = i + 1 < runs.size() ? runs[i + 1] >> 3 : 0x110000;
    for (uint32_t point = runs[i] >> 3; point < end; ++point)
      ASSERT_EQ(static_cast<uint32_t>(class_of(point)), runs[i] & 7U) << point;
  }
}

}  // namespace
}  // namespace trireme::data
