#include "trireme/launch/console.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "launched.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

std::string read_some(int fd) {
  std::array<char, 1 << 20> buffer;
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(0, got))};
}

class ConsoleOfPipe : public ::testing::Test {
 protected:
  ConsoleOfPipe() { ::signal(SIGPIPE, SIG_IGN); }
  ~ConsoleOfPipe() override { ::signal(SIGPIPE, SIG_DFL); }
  TestPipe pipe_;
  Console console_{pipe_.ends[1]};
};

TEST_F(ConsoleOfPipe, WritesAtOnceWhatFits) {
  console_.add("abc");
  console_.pending() += "def";
  console_.flush();
  EXPECT_TRUE(console_.empty());
  EXPECT_EQ(read_some(pipe_.ends[0]), "abcdef");
}

TEST_F(ConsoleOfPipe, KeepsWhatDoesNotFitAndDoesNotWait) {
  std::string all(3'000'000, 'x');
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<char>('a' + i % 23);
  console_.add(all);
  EXPECT_FALSE(console_.empty());
  EXPECT_TRUE(console_.full());
  std::string got;
  for (int i = 0; i < 1000 && got.size() < all.size(); ++i) {
    got += read_some(pipe_.ends[0]);
    console_.flush();
  }
  EXPECT_TRUE(got == all);
  EXPECT_TRUE(console_.empty());
  EXPECT_FALSE(console_.full());
}

// Whoever else writes there must not be surprised, and must not hold us up.
TEST_F(ConsoleOfPipe, IsNonBlockingForItselfAlone) {
  EXPECT_EQ(::fcntl(pipe_.ends[1], F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(console_.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(ConsoleOfPipe, NoticesThatTheReaderIsGone) {
  console_.add("abc");
  EXPECT_FALSE(console_.gone());
  pipe_.close(0);
  console_.add("def");
  EXPECT_TRUE(console_.gone());
  EXPECT_TRUE(console_.empty());
  console_.add("ghi");
  EXPECT_TRUE(console_.empty()) << "what nobody reads is not kept";
}

TEST_F(ConsoleOfPipe, IsLeftByAChildWithoutHarm) {
  const int before = console_.fd();
  const pid_t child = ::fork();
  if (child == 0) {
    console_.close_in_child();
    ::_exit(::fcntl(before, F_GETFD) < 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  console_.add("abc");
  EXPECT_EQ(read_some(pipe_.ends[0]), "abc");
}

TEST(Console, AppendsToAFileWhereOthersWriteToo) {
  const testing::ScratchFolder folder;
  const auto path = folder.write("out", "");
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  Console console(fd);
  console.add("one\n");
  ASSERT_EQ(::write(fd, "two\n", 4), 4);
  console.add("three\n");
  ::close(fd);
  EXPECT_EQ(read_text_file(path), "one\ntwo\nthree\n");
}

TEST(Console, LosesTextOnAFullDiskAndNoMore) {
  const int fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    GTEST_SKIP() << "there is no /dev/full";
  Console console(fd);
  console.add("abc");
  EXPECT_TRUE(console.empty());
  EXPECT_FALSE(console.gone()) << "a rank that prints there must not be ended";
  ::close(fd);
}

TEST(Console, LosesTextWhereNothingIsOpen) {
  TestPipe pipe;
  const int fd = pipe.ends[1];
  pipe.close(1);
  Console console(fd);
  console.add("abc");
  EXPECT_TRUE(console.empty());
}

}  // namespace
}  // namespace trireme::launch
