#include "trireme/comm/shm/segment_file.h"

#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

/// A file under a name of its own, gone at the end.
class SegmentFile : public ::testing::Test {
 protected:
  ~SegmentFile() override { ::unlink(path_.c_str()); }
  void write(const SegmentHeader& header, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(&header), sizeof header);
    ::chmod(path_.c_str(), mode);
  }
  SegmentHeader living() {
    SegmentHeader header;
    header.size = 1;
    header.creator_pid = getpid();
    header.creator_start_time = process_start_time(getpid());
    header.creator_pid_namespace = own_pid_namespace();
    return header;
  }
  FoundSegment::State state() {
    const FoundSegment found = open_segment(path_);
    FileDescriptor close_it(found.fd);
    return found.state;
  }
  std::string refusal() {
    return message_of<InvalidArgument>([this] { open_segment(path_); });
  }
  std::string path_ = ::testing::TempDir() + testing::fresh_job_name();
};

TEST_F(SegmentFile, IsMissingWhenThereIsNone) {
  EXPECT_EQ(state(), FoundSegment::State::Missing);
}

TEST_F(SegmentFile, IsAliveWhileItsCreatorIs) {
  write(living());
  EXPECT_EQ(state(), FoundSegment::State::Alive);
}

TEST_F(SegmentFile, IsStaleWhenItsPidMeansAnotherProcess) {
  SegmentHeader header = living();
  header.creator_start_time -= 1;
  write(header);
  EXPECT_EQ(state(), FoundSegment::State::Stale);
  header = living();
  header.creator_pid = 1 << 30;  // beyond any pid
  write(header);
  EXPECT_EQ(state(), FoundSegment::State::Stale);
}

TEST_F(SegmentFile, OfAnotherPidNamespaceIsNeverJudgedDead) {
  SegmentHeader header = living();
  header.creator_pid = 1 << 30;
  header.creator_pid_namespace += 1;
  write(header);
  EXPECT_EQ(state(), FoundSegment::State::Alive);
}

TEST_F(SegmentFile, MustNotBeOpenToOthers) {
  write(living(), 0640);
  EXPECT_TRUE(contains(refusal(), "mode 0600"));
}

TEST_F(SegmentFile, MustBelongToThisUser) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give a file away";
  write(living());
  ASSERT_EQ(::chown(path_.c_str(), 4242, 4242), 0);
  EXPECT_TRUE(contains(refusal(), "belong to user 0, got user 4242's"));
}

TEST_F(SegmentFile, MustBeASegmentAndNoLink) {
  std::ofstream(path_) << "not a segment";
  ::chmod(path_.c_str(), 0600);
  EXPECT_TRUE(contains(refusal(), "another file"));
  ::unlink(path_.c_str());
  ASSERT_EQ(::symlink("/etc/passwd", path_.c_str()), 0);
  EXPECT_TRUE(contains(refusal(), "this user's segment"));
  ::unlink(path_.c_str());
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  EXPECT_FALSE(refusal().empty());
  ::rmdir(path_.c_str());
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
}  // namespace trireme::comm
