#include "trireme/train/token_sources.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::train {
namespace {

TEST(TokenSources, OpensTextAndTokenFiles) {
  const testing::ScratchFolder folder;
  Config config;
  config.training.seq_len = 4;
  config.data.path = {folder.write("a.txt", "hello world").string()};
  TokenSources sources = open_sources(config);
  EXPECT_EQ(sources.training.size(), 11);
  EXPECT_FALSE(sources.held_out);
  EXPECT_EQ(sources.tokenizer->vocab_size(), 256);
  config.data.held_out = config.data.path;
  EXPECT_EQ(open_sources(config).held_out->size(), 11);
  config.data.path = {folder.write("b.bin", std::string(20, '\1')).string()};
  config.data.held_out = {};
  EXPECT_EQ(open_sources(config).training.size(), 10);
  EXPECT_EQ(open_sources(config).tokenizer, nullptr);
  config.data.format = "text";
  EXPECT_EQ(open_sources(config).training.size(), 20);
  config.data.tokenizer = "none";
  EXPECT_THROW(open_sources(config), InvalidArgument);
}

TEST(TokenSources, RefusesWhatIsTooShortOrMissing) {
  const testing::ScratchFolder folder;
  Config config;
  config.data.path = {folder.write("a.txt", "short").string()};
  EXPECT_THROW(open_sources(config), InvalidArgument);
  config.data.path = {"/no/such/file"};
  EXPECT_THROW(open_sources(config), InvalidArgument);
  config.data.tokenizer = "/no/such/tokenizer.json";
  EXPECT_THROW(open_sources(config), InvalidArgument);
}

TEST(TokenSources, ForeignFilesAreNoTokens) {
  const testing::ScratchFolder folder;
  Config config;
  config.training.seq_len = 4;
  const std::string tokens = folder.write("a.bin", std::string(20, '\1')).string();
  const std::string numpy =
      folder.write("b.bin", "\x93NUMPY" + std::string(20, '\1')).string();
  const std::string text = folder.write("c.txt", "hello world").string();
  const std::string gzip =
      folder.write("d.txt", "\x1f\x8b\x08" + std::string(20, 'x')).string();
  const std::string binary =
      folder.write("e.txt", std::string("some\0bytes", 10)).string();
  const auto error_of = [&] {
    return testing::message_of<InvalidArgument>([&] { open_sources(config); });
  };
  // In every place, not in the first alone.
  for (const auto& paths :
       {std::vector{numpy},
        std::vector{tokens, numpy},
        std::vector{tokens, tokens, numpy}}) {
    config.data = {.path = paths};
    EXPECT_TRUE(testing::contains(error_of(), "expected tokens, got a NumPy file"));
    config.data = {.path = {tokens}, .held_out = paths};
    EXPECT_TRUE(testing::contains(error_of(), "data.held_out: "));
    config.data = {.path = paths, .format = "nanogpt"};
    EXPECT_NO_THROW(open_sources(config)) << "said to be tokens all the same";
  }
  config.data = {.path = {text, gzip}};
  EXPECT_TRUE(testing::contains(error_of(), "expected text, got a gzip file"));
  config.data = {.path = {binary, text}};
  EXPECT_TRUE(testing::contains(error_of(), "expected text, got binary data"));
  config.data.format = "text";
  EXPECT_NO_THROW(open_sources(config));
  config.data = {.path = {tokens, text}};
  EXPECT_TRUE(testing::contains(error_of(), "got both: "));
}

TEST(TokenSources, FilesOfOneJobMayHaveSeveralFormats) {
  const testing::ScratchFolder folder;
  Config config;
  config.training.seq_len = 4;
  // A header of 256 int32: magic, version, number of tokens.
  std::string llm_c(1024, '\0');
  const std::array<int32_t, 3> header{20240520, 1, 5};
  std::memcpy(llm_c.data(), header.data(), sizeof header);
  config.data.path = {
      folder.write("a.bin", std::string(20, '\1')).string(),
      folder.write("b.bin", llm_c + std::string(10, '\2')).string()};
  EXPECT_EQ(open_sources(config).training.size(), 10 + 5);
}

TEST(TokenSources, ATokenizerThatIsNotSupportedIsNotNeededForTokens) {
  const testing::ScratchFolder folder;
  folder.write("tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {}}})");
  Config config;
  config.training.seq_len = 4;
  config.model.hf_assets_path = folder.path().string();
  config.data.path = {folder.write("a.txt", "hello world").string()};
  const std::string error =
      testing::message_of<NotSupported>([&] { open_sources(config); });
  EXPECT_TRUE(testing::contains(error, "train on its .bin file"));
  config.data.path = {folder.write("b.bin", std::string(20, '\1')).string()};
  EXPECT_EQ(open_sources(config).tokenizer, nullptr) << "as the error advises";
  folder.write("tokenizer.json", "{");
  EXPECT_THROW(open_sources(config), InvalidArgument) << "damaged";
}

TEST(TokenSources, TheProgramsOwnTextCanLieElsewhere) {
  const testing::ScratchFolder folder;
  ::setenv("TRIREME_TEXT", folder.path().c_str(), 1);
  EXPECT_THROW(own_text_folder(), NotSupported);
  folder.write("training.txt", std::string(1000, 'x'));
  folder.write("held_out.txt", std::string(500, 'x'));
  EXPECT_EQ(own_text_folder(), folder.path());
  const TokenSources sources = open_sources({});
  EXPECT_EQ(sources.training.size(), 1000);
  EXPECT_EQ(sources.held_out->size(), 500);
  ::unsetenv("TRIREME_TEXT");
}

}  // namespace
}  // namespace trireme::train
