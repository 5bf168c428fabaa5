#include "trireme/core/file_memory.h"

#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "trireme/core/file_descriptor.h"

namespace trireme {
namespace {

std::uint64_t bytes_behind(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

}  // namespace

TEST(FileMemory, TakesAndGivesBackRanges) {
  const FileDescriptor file(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 1 << 30), 0);
  EXPECT_EQ(bytes_behind(file.get()), 0u);
  // More than one piece.
  EXPECT_EQ(take_file_memory(file.get(), 4096, 40 << 20), 40u << 20);
  EXPECT_EQ(bytes_behind(file.get()), 40u << 20);
  release_file_memory(file.get(), 8192, 4096);
  EXPECT_EQ(bytes_behind(file.get()), (40u << 20) - 4096);
  release_file_memory(file.get(), 0, 0);
  release_file_memory(file.get(), 0, 1 << 30);
  EXPECT_EQ(bytes_behind(file.get()), 0u);
}

TEST(FileMemory, SaysHowFarItCame) {
  errno = 0;
  EXPECT_EQ(take_file_memory(-1, 0, 4096), 0u);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(take_file_memory(-1, 0, 0), 0u);
}

}  // namespace trireme
