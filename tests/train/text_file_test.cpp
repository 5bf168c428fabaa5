#include "trireme/train/text_file.h"

#include <gtest/gtest.h>

#include "trireme/ckpt/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

TEST(TextFile, WritesTheWholeOrNothing) {
  const testing::ScratchFolder folder;
  const fs::path path = folder.path() / "x";
  ckpt::write_durably(path, "one");
  ckpt::write_durably(path, "two");
  EXPECT_EQ(read_file(path), "two");
  EXPECT_FALSE(fs::exists(folder.path() / "x.tmp"));
  EXPECT_THROW(ckpt::write_durably(folder.path() / "no" / "x", "one"), InvalidArgument);
}

TEST(TextFile, ReadsFilesAndNothingElse) {
  const testing::ScratchFolder folder;
  EXPECT_EQ(read_file(folder.write("empty", "")), "");
  EXPECT_EQ(read_file(folder.path()), std::nullopt);
  EXPECT_EQ(read_file(folder.path() / "no"), std::nullopt);
}

}  // namespace
}  // namespace trireme::train
