#include "trireme/core/scratch_folder.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ScratchFolder, GoesWithWhatIsInIt) {
  std::filesystem::path gone;
  {
    const ScratchFolder folder, other;
    EXPECT_NE(folder.path(), other.path());
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    const auto file = folder.write("a/b", "one");
    EXPECT_EQ(file, folder.path() / "a" / "b");
    EXPECT_TRUE(std::filesystem::is_regular_file(file));
    gone = folder.path();
  }
  EXPECT_FALSE(std::filesystem::exists(gone));
}

}  // namespace
}  // namespace trireme
