#include "trireme/ckpt/durable_file.h"

#include <fstream>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/testing/world.h"

namespace trireme::ckpt {
namespace {

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
  const std::string message =
      refusal([&] { write_durably(folder.path() / "file" / "x", "y"); });
  expect_part(message, (folder.path() / "file" / "x").string());
  expect_part(message, "Not a directory");
  expect_part(
      refusal([&] { write_durably(folder.path() / "no" / "x", "y"); }), "No such file");
}

// A limit on file sizes behaves as a full disk does: a write fails half-way.
TEST(DurableFileProcs, AFullDiskIsAnErrorAndLeavesNothing) {
  const testing::ScratchFolder folder;
  testing::Processes processes;
  processes.start([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_part(
        refusal([&] { write_durably(folder.path() / "x", std::string(5000, 'x')); }),
        "File too large");
    return 0;
  });
  EXPECT_EQ(processes.wait(std::chrono::seconds(20))[0].exit_code, 0);
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
  expect_part(refusal([&] { InputFile file(folder.path()); }), "a folder or a device");
  expect_part(refusal([&] { InputFile file(folder.path() / "none"); }), "No such file");
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_part(refusal([&] { InputFile file(pipe); }), "a folder or a device");
}

TEST(InputFile, NoticesAFileThatShrinks) {
  const testing::ScratchFolder folder;
  const auto path = folder.write("a", "0123456789");
  const InputFile file(path);
  EXPECT_EQ(file.bytes(), 10U);
  ASSERT_EQ(::truncate(path.c_str(), 4), 0);
  std::string into(10, ' ');
  expect_part(
      refusal([&] { file.read(into.data(), 10, 0); }),
      "expected 6 bytes more, got the end");
  expect_part(refusal([&] { read_file(path, 3); }), "expected at most 3 bytes, got 4");
}

}  // namespace
}  // namespace trireme::ckpt
