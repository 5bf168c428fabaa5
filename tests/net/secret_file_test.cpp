#include "trireme/net/secret_file.h"

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::net {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

std::string refusal(const fs::path& path) {
  return testing::message_of<InvalidArgument>(
      [&path] { (void)read_secret(path, "a secret", 100); });
}

TEST(SecretFile, IsReadBack) {
  const testing::ScratchFolder folder;
  write_new_file(folder.path() / "one", "hush", 0600);
  EXPECT_EQ(read_secret(folder.path() / "one", "a secret", 4).view(), "hush");
  EXPECT_EQ(mode_of(folder.path() / "one"), 0600U);
}

TEST(SecretFile, HasItsModeWhateverTheUmaskIs) {
  const testing::ScratchFolder folder;
  const mode_t before = ::umask(0);
  write_new_file(folder.path() / "open", "x", 0600);
  ::umask(0777);
  write_new_file(folder.path() / "closed", "x", 0644);
  ::umask(before);
  EXPECT_EQ(mode_of(folder.path() / "open"), 0600U);
  EXPECT_EQ(mode_of(folder.path() / "closed"), 0644U);
}

TEST(SecretFile, NeverReplacesWhatIsThere) {
  const testing::ScratchFolder folder;
  const auto there = folder.write("there", "old");
  fs::create_symlink(folder.path() / "nowhere", folder.path() / "link");
  for (const char* name : {"there", "link"}) {
    const std::string message = testing::message_of<InvalidArgument>(
        [&] { write_new_file(folder.path() / name, "new", 0600); });
    EXPECT_TRUE(testing::contains(message, "move that one away")) << message;
  }
  std::ifstream file(there);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "old");
  EXPECT_FALSE(fs::exists(folder.path() / "nowhere"));
  EXPECT_THROW(write_new_file(folder.path() / "a/b", "x", 0600), InvalidArgument);
  // No trace of the attempts.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
}

TEST(SecretFile, IsRefusedIfOthersMayReadOrWriteIt) {
  const testing::ScratchFolder folder;
  const fs::path path = folder.path() / "key";
  write_new_file(path, "hush", 0600);
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0610U, 0601U, 0777U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const std::string message = refusal(path);
    EXPECT_TRUE(testing::contains(message, "chmod 600")) << message;
    EXPECT_FALSE(testing::contains(message, "hush")) << message;
  }
  for (const mode_t mode : {0600U, 0400U, 0700U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(read_secret(path, "a secret", 100).view(), "hush");
  }
}

TEST(SecretFile, IsNeitherLinkNorFolderNorPipe) {
  const testing::ScratchFolder folder;
  write_new_file(folder.path() / "key", "hush", 0600);
  fs::create_symlink("key", folder.path() / "link");
  fs::create_directory(folder.path() / "folder");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(testing::contains(refusal(folder.path() / "link"), "got a link"));
  EXPECT_TRUE(testing::contains(refusal(folder.path() / "folder"), "got a folder"));
  EXPECT_TRUE(testing::contains(refusal(folder.path() / "pipe"), "a pipe"));
  EXPECT_TRUE(testing::contains(refusal(folder.path() / "none"), "No such file"));
}

TEST(SecretFile, IsNeitherEmptyNorTooLarge) {
  const testing::ScratchFolder folder;
  write_new_file(folder.path() / "empty", "", 0600);
  write_new_file(folder.path() / "large", std::string(101, 'x'), 0600);
  EXPECT_TRUE(testing::contains(refusal(folder.path() / "empty"), "one of 0 bytes"));
  EXPECT_TRUE(testing::contains(refusal(folder.path() / "large"), "one of 101 bytes"));
}

TEST(SecretFile, BelongsToThisUser) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give a file away";
  const testing::ScratchFolder folder;
  const fs::path path = folder.path() / "key";
  write_new_file(path, "hush", 0600);
  ASSERT_EQ(::chown(path.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_TRUE(testing::contains(refusal(path), "a file of user 12345"));
}

}  // namespace
}  // namespace trireme::net
