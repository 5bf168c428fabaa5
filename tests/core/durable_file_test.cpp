#include "trireme/core/durable_file.h"

#include <filesystem>
#include <functional>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme {
namespace {

using testing::message_of;

void expect_in(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
}

size_t entries(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(
      std::filesystem::directory_iterator(folder),
      std::filesystem::directory_iterator()));
}

TEST(DurableFile, IsThereOnlyWhenItIsFinished) {
  const testing::ScratchFolder folder;
  const auto path = folder.write("a", "before");
  {
    DurableFile file(path);
    file.write("half");
  }
  EXPECT_EQ(read_file(path, 100), "before");
  EXPECT_EQ(entries(folder.path()), 1U);
  DurableFile file(path);
  file.write("after");
  file.write("wards");
  EXPECT_EQ(read_file(path, 100), "before");
  file.finish();
  EXPECT_EQ(read_file(path, 100), "afterwards");
  EXPECT_EQ(file.bytes(), 10U);
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(DurableFile, NamesThePathThatCannotBeWritten) {
  const testing::ScratchFolder folder;
  folder.write("file", "");
  const std::string message = message_of<InvalidArgument>(
      [&] { write_durably(folder.path() / "file" / "x", "y"); });
  expect_in(message, (folder.path() / "file" / "x").string());
  expect_in(message, "Not a directory");
  expect_in(
      message_of<InvalidArgument>(
          [&] { write_durably(folder.path() / "no" / "x", "y"); }),
      "No such file");
}

// A limit on file sizes behaves as a full disk does: a write fails half-way.
TEST(DurableFileProcs, AFullDiskIsAnErrorAndLeavesNothing) {
  const testing::ScratchFolder folder;
  const auto fill = [&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string error = message_of<InvalidArgument>(
        [&] { write_durably(folder.path() / "x", std::string(5000, 'x')); });
    ::_exit(error.find("File too large") != std::string::npos ? 0 : 1);
  };
  EXPECT_EXIT(fill(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST(DurableFile, NamesStayInTheirFolder) {
  for (const char* good : {"a", "model-00001-of-00002.safetensors", ".hidden"})
    EXPECT_TRUE(is_plain_file_name(good)) << good;
  for (const std::string_view bad :
       {std::string_view(""),
        std::string_view("."),
        std::string_view(".."),
        std::string_view("a/b"),
        std::string_view("/a"),
        std::string_view("../a"),
        std::string_view("a\0b", 3)})
    EXPECT_FALSE(is_plain_file_name(bad)) << bad;
}

TEST(InputFile, RefusesWhatIsNoFile) {
  const testing::ScratchFolder folder;
  expect_in(
      message_of<InvalidArgument>([&] { InputFile file(folder.path()); }),
      "a folder or a device");
  expect_in(
      message_of<InvalidArgument>([&] { InputFile file(folder.path() / "none"); }),
      "No such file");
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_in(
      message_of<InvalidArgument>([&] { InputFile file(pipe); }),
      "a folder or a device");
}

TEST(InputFile, NoticesAFileThatShrinks) {
  const testing::ScratchFolder folder;
  const auto path = folder.write("a", "0123456789");
  const InputFile file(path);
  EXPECT_EQ(file.bytes(), 10U);
  ASSERT_EQ(::truncate(path.c_str(), 4), 0);
  std::string into(10, ' ');
  expect_in(
      message_of<InvalidArgument>([&] { file.read(into.data(), 10, 0); }),
      "expected 6 bytes more, got the end");
  expect_in(
      message_of<InvalidArgument>([&] { read_file(path, 3); }),
      "expected at most 3 bytes, got 4");
}

}  // namespace
}  // namespace trireme
