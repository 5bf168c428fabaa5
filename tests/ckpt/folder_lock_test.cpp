#include "trireme/ckpt/folder_lock.h"

#include "helpers.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::ckpt {
namespace {

using State = FolderLock::State;

TEST(FolderLock, IsHeldByOneAtATime) {
  const testing::ScratchFolder folder;
  {
    FolderLock first(folder.path());
    EXPECT_EQ(first.state(), State::Held);
    EXPECT_EQ(FolderLock(folder.path()).state(), State::Busy);
    const FolderLock moved(std::move(first));
    EXPECT_EQ(moved.state(), State::Held);
    EXPECT_EQ(FolderLock(folder.path()).state(), State::Busy);
  }
  EXPECT_EQ(FolderLock(folder.path()).state(), State::Held);
}

TEST(FolderLock, SaysSoWhenThereIsNothingToLock) {
  const testing::ScratchFolder folder;
  EXPECT_EQ(FolderLock(folder.path() / "none").state(), State::Unknown);
  EXPECT_EQ(FolderLock(folder.write("file", "")).state(), State::Unknown);
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "link");
  EXPECT_EQ(FolderLock(folder.path() / "link").state(), State::Unknown);
}

}  // namespace
}  // namespace trireme::ckpt
