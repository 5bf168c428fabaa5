// Files of segments: whose they are, whether their job is dead, and how they go.
#include "trireme/core/segment_file.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/core/machine.h"

namespace trireme {
namespace {

/// A folder with a file under a segment's name, gone at the end.
class SegmentFile : public ::testing::Test {
 protected:
  SegmentFile() { std::filesystem::create_directories(folder_); }
  ~SegmentFile() override { std::filesystem::remove_all(folder_); }
  void write(const SegmentStamp& stamp, mode_t mode = 0600) const {
    ::unlink(path_.c_str());
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(&stamp), sizeof stamp);
    ::chmod(path_.c_str(), mode);
  }
  static SegmentStamp living() { return SegmentStamp::of_this_process(); }
  static SegmentStamp dead() {
    SegmentStamp stamp = living();
    stamp.creator_pid = 1 << 30;  // beyond any pid
    return stamp;
  }
  FoundSegment::State state() const {
    const FoundSegment found = open_segment(path_);
    const FileDescriptor close_it(found.fd);
    return found.state;
  }
  ::testing::AssertionResult refused(const std::string& part) const {
    try {
      const FileDescriptor close_it(open_segment(path_).fd);
    } catch (const InvalidArgument& error) {
      if (std::string(error.what()).find(part) != std::string::npos)
        return ::testing::AssertionSuccess();
      return ::testing::AssertionFailure() << error.what();
    }
    return ::testing::AssertionFailure() << "nothing was thrown";
  }
  size_t count() const {
    const auto entries = std::filesystem::directory_iterator(folder_);
    return static_cast<size_t>(std::distance(begin(entries), end(entries)));
  }

  const std::string folder_ = text(
      ::testing::TempDir(),
      "segment-file-",
      getpid(),
      "-",
      std::chrono::steady_clock::now().time_since_epoch().count());
  const std::string path_ = folder_ + "/trireme-0123";
};

TEST(SegmentName, IsDifferentForEveryJobAndRestart) {
  const LaunchEnv env{.master_port = 29500, .run_id = "a"};
  LaunchEnv other = env;
  EXPECT_EQ(segment_name(env), segment_name(other));
  other.restart_count = 1;
  EXPECT_NE(segment_name(env), segment_name(other));
  other = env;
  other.master_port = 29501;
  EXPECT_NE(segment_name(env), segment_name(other));
  other = env;
  other.run_id = "b";
  EXPECT_NE(segment_name(env), segment_name(other));
  other = env;
  other.master_addr = "10.0.0.1";
  EXPECT_NE(segment_name(env), segment_name(other));
}

TEST_F(SegmentFile, IsMissingWhenThereIsNone) {
  EXPECT_EQ(state(), FoundSegment::State::Missing);
}

TEST_F(SegmentFile, IsAliveWhileItsCreatorIs) {
  write(living());
  EXPECT_EQ(state(), FoundSegment::State::Alive);
}

TEST_F(SegmentFile, IsStaleWhenItsPidMeansAnotherProcess) {
  SegmentStamp stamp = living();
  stamp.creator_start_time -= 1;
  write(stamp);
  EXPECT_EQ(state(), FoundSegment::State::Stale);
  write(dead());
  EXPECT_EQ(state(), FoundSegment::State::Stale);
}

TEST_F(SegmentFile, OfAnotherPidNamespaceIsNeverJudgedDead) {
  SegmentStamp stamp = dead();
  stamp.creator_pid_namespace += 1;
  write(stamp);
  EXPECT_EQ(state(), FoundSegment::State::Alive);
}

// With one descriptor left the file can be opened, but /proc cannot: unknown is not
// dead.
TEST_F(SegmentFile, IsAliveWhileItsCreatorCannotBeLookedAt) {
  write(living());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int next = ::dup(STDERR_FILENO);
    ::close(next);
    const auto one_more = static_cast<rlim_t>(next + 1);
    const rlimit few{.rlim_cur = one_more, .rlim_max = one_more};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::_exit(state() == FoundSegment::State::Alive ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(SegmentFile, MustNotBeOpenToOthers) {
  write(living(), 0640);
  EXPECT_TRUE(refused("mode 0600"));
}

TEST_F(SegmentFile, MustBelongToThisUser) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give a file away";
  write(living());
  ASSERT_EQ(::chown(path_.c_str(), 4242, 4242), 0);
  EXPECT_TRUE(refused("belong to user 0, got user 4242's"));
}

TEST_F(SegmentFile, MustBeASegmentAndNoLink) {
  std::ofstream(path_) << "not a segment";
  ::chmod(path_.c_str(), 0600);
  EXPECT_TRUE(refused("another file"));
  ::unlink(path_.c_str());
  ASSERT_EQ(::symlink("/etc/passwd", path_.c_str()), 0);
  EXPECT_TRUE(refused("this user's segment"));
  ::unlink(path_.c_str());
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  EXPECT_TRUE(refused(""));
}

TEST_F(SegmentFile, IsRemovedUnlessTheNameMeansAnotherByNow) {
  write(dead());
  const FoundSegment found = open_segment(path_);
  const FileDescriptor close_it(found.fd);
  ASSERT_EQ(found.state, FoundSegment::State::Stale);
  write(living());  // another job was faster
  remove_segment(path_, found);
  EXPECT_EQ(state(), FoundSegment::State::Alive);
  write(dead());
  const FoundSegment again = open_segment(path_);
  const FileDescriptor close_this(again.fd);
  remove_segment(path_, again);
  EXPECT_EQ(count(), 0u);
}

TEST_F(SegmentFile, OfDeadJobsAreSweptAwayAndNothingElse) {
  write(dead());
  std::filesystem::rename(path_, folder_ + "/trireme-dead");
  std::ofstream(folder_ + "/trireme-text") << "not a segment";
  write(dead());
  std::filesystem::rename(path_, folder_ + "/other-dead");
  write(living());
  EXPECT_EQ(remove_stale_segments(folder_), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/trireme-dead"));
  EXPECT_EQ(count(), 3u);
  EXPECT_EQ(remove_stale_segments(folder_ + "/none"), 0);
}

TEST(FileDescriptor, ClosesItself) {
  const int fd = ::open("/dev/null", O_RDONLY);
  { FileDescriptor owner(fd); }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  const int kept = ::open("/dev/null", O_RDONLY);
  { EXPECT_EQ(FileDescriptor(kept).release(), kept); }
  EXPECT_NE(::fcntl(kept, F_GETFD), -1);
  ::close(kept);
}

}  // namespace
}  // namespace trireme
