#include "trireme/launch/log_files.h"

#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/proc_text.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

using testing::message_of;
namespace fs = std::filesystem;

TEST(RunFolder, IsNewEachTime) {
  const testing::ScratchFolder folder;
  const fs::path logs = folder.path() / "a" / "b";
  const fs::path one = make_run_folder(logs, "job7");
  const fs::path two = make_run_folder(logs, "job7");
  EXPECT_NE(one, two);
  for (const fs::path& run : {one, two}) {
    EXPECT_EQ(run.parent_path(), logs);
    EXPECT_TRUE(run.filename().string().starts_with("job7_")) << run;
    EXPECT_TRUE(fs::is_directory(run));
  }
}

TEST(RunFolder, StaysBelowTheFolderWhateverTheRunIsCalled) {
  const testing::ScratchFolder folder;
  for (const std::string& id :
       {std::string("../../x"),
        std::string(".."),
        std::string(500, 'x'),
        std::string("a\0b", 3)}) {
    const fs::path run = make_run_folder(folder.path(), id);
    EXPECT_EQ(run.parent_path(), folder.path());
    EXPECT_TRUE(fs::is_directory(run));
  }
}

TEST(RunFolder, IsATemporaryOneWithoutAName) {
  const fs::path run = make_run_folder("", "job7");
  EXPECT_EQ(run.parent_path(), fs::temp_directory_path());
  EXPECT_TRUE(run.filename().string().starts_with("trireme-job7_")) << run;
  fs::remove(run);
}

TEST(RunFolder, OfSeveralNodesHasOneName) {
  const testing::ScratchFolder folder;
  const std::string name = run_folder_name(std::string(500, 'x'));
  EXPECT_NE(name, run_folder_name(std::string(500, 'x')));
  const fs::path one = share_run_folder(folder.path() / "logs", name);
  EXPECT_EQ(one, folder.path() / "logs" / name);
  EXPECT_EQ(one, share_run_folder(folder.path() / "logs", name)) << "one file system";
  EXPECT_EQ(share_run_folder(folder.path(), "../x").parent_path(), folder.path());
  folder.write("file", "text");
  fs::create_symlink("/tmp", folder.path() / "link");
  for (const char* taken : {"file", "link"}) {
    const std::string what =
        message_of<InvalidArgument>([&] { share_run_folder(folder.path(), taken); });
    EXPECT_NE(what.find("got something that is no folder"), std::string::npos) << what;
  }
  EXPECT_THROW(check_log_dir(folder.path() / "file" / "below"), InvalidArgument);
  check_log_dir(folder.path() / "new");
  EXPECT_TRUE(fs::is_directory(folder.path() / "new"));
}

TEST(RunFolder, IsRefusedWhereNobodyCanWrite) {
  const testing::ScratchFolder folder;
  const fs::path file = folder.write("file", "text");
  for (const fs::path& where : {file, file / "below", fs::path("/proc/logs")}) {
    const std::string what =
        message_of<InvalidArgument>([&] { make_run_folder(where, "job"); });
    EXPECT_TRUE(what.starts_with("[launch] expected to write logs to \"")) << what;
    EXPECT_NE(what.find("(--log-dir)"), std::string::npos) << what;
  }
}

TEST(RunFolder, IsRefusedWithoutAPlaceForTemporaryFiles) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", "/nonexistent", 1);
  const std::string what =
      message_of<InvalidArgument>([] { make_run_folder("", "job"); });
  before != nullptr ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
  EXPECT_NE(what.find("TMPDIR"), std::string::npos) << what;
}

TEST(LogFile, IsFoundByAttemptAndRank) {
  EXPECT_EQ(log_file("run", 0, 12, false), "run/attempt_0/12/stdout.log");
  EXPECT_EQ(log_file("run", 3, 0, true), "run/attempt_3/0/stderr.log");
}

TEST(LogFile, IsOpenedWithItsFolder) {
  const testing::ScratchFolder folder;
  const fs::path file = log_file(folder.path(), 1, 2, false);
  const int fd = open_log_file(file);
  ASSERT_GE(fd, 0);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::write(fd, "abc", 3), 3);
  ::close(fd);
  EXPECT_EQ(read_text_file(file), "abc");
}

TEST(LogFile, IsRefusedWhereItCannotBe) {
  const testing::ScratchFolder folder;
  const fs::path file = folder.write("attempt_0", "in the way");
  const std::string what = message_of<InvalidArgument>(
      [&] { open_log_file(log_file(folder.path(), 0, 0, false)); });
  EXPECT_NE(what.find("attempt_0/0/stdout.log"), std::string::npos) << what;
  fs::create_directories(folder.path() / "attempt_1/0/stdout.log");
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        open_log_file(log_file(folder.path(), 1, 0, false));
      }).find("Is a directory"),
      std::string::npos);
}

}  // namespace
}  // namespace trireme::launch
