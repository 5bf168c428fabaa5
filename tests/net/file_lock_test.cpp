#include "trireme/net/file_lock.h"

#include <csignal>
#include <fcntl.h>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "refusal.h"
#include "store_helpers.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/core/scratch_folder.h"

namespace trireme::net {
namespace {

class FileLockTest : public ::testing::Test {
 protected:
  FileDescriptor open() const {
    return FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  ScratchFolder scratch_;
  std::string path_ = (scratch_.path() / "lock").string();
};

TEST_F(FileLockTest, ExcludesOthersOfTheSameProcess) {
  const FileDescriptor first = open();
  const FileDescriptor second = open();
  std::optional<FileLock> lock(std::in_place, first.get(), store_patience(), path_);
  const double seconds = seconds_of([&] {
    EXPECT_EQ(
        refusal_of<TimeoutError>([&] {
          FileLock(
              second.get(), Deadline::after(std::chrono::milliseconds(50)), "the/lock");
        }),
        "[net] expected the lock of \"the/lock\" within 50 ms, got none: another "
        "process holds it; see whether one that uses the store was stopped");
  });
  EXPECT_GE(seconds, 0.05);
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    lock.reset();
  });
  FileLock(second.get(), store_patience(), path_);
  releaser.join();
}

TEST_F(FileLockTest, GoesWithAProcessThatIsKilled) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FileDescriptor own = open();
    const FileLock lock(own.get(), store_patience(), path_);
    if (::write(ready[1], "x", 1) == 1)
      ::sleep(60);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const FileDescriptor own = open();
  EXPECT_THROW(
      FileLock(own.get(), Deadline::after(std::chrono::milliseconds(-1)), path_),
      TimeoutError);
  ::kill(child, SIGKILL);
  FileLock(own.get(), store_patience(), path_);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(FileLockTest, SaysWhatIsWrongWithTheFile) {
  EXPECT_EQ(
      refusal_of<Error>([] { FileLock(-1, store_patience(), "path"); }),
      "[net] expected to lock \"path\", got Bad file descriptor (errno 9); choose a "
      "folder on a file system with locks");
}

}  // namespace
}  // namespace trireme::net
