#include "trireme/train/text_file.h"

#include <gtest/gtest.h>

#include "trireme/testing/scratch_folder.h"

namespace trireme::train {
namespace {

TEST(TextFile, ReadsFilesAndNothingElse) {
  const testing::ScratchFolder folder;
  EXPECT_EQ(read_file(folder.write("empty", "")), "");
  EXPECT_EQ(read_file(folder.path()), std::nullopt);
  EXPECT_EQ(read_file(folder.path() / "no"), std::nullopt);
}

}  // namespace
}  // namespace trireme::train
