#include "trireme/train/token_sources.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
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
