#include "trireme/launch/relay.h"

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "launched.h"
#include "trireme/launch/log_files.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

class RelayTest : public ::testing::Test {
 protected:
  RelayTest() { ::signal(SIGPIPE, SIG_IGN); }
  ~RelayTest() override { ::signal(SIGPIPE, SIG_DFL); }

  // A stream of a rank; gives the end that the rank would write to.
  int add(int rank, bool err, StreamTarget target) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    relay_.add(rank, err, ends[0], std::move(target));
    return ends[1];
  }
  StreamTarget here(const std::string& prefix = "") {
    return {.console = &console_, .prefix = prefix};
  }
  static void write(int fd, const std::string& bytes) {
    EXPECT_EQ(
        ::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  bool readable() const {
    pollfd wait{.fd = relay_.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&wait, 1, 0) == 1;
  }
  // All that has come to the console until now.
  std::string shown() {
    console_.flush();
    std::string all;
    std::array<char, 65536> buffer;
    ::fcntl(pipe_.ends[0], F_SETFL, O_NONBLOCK);
    for (ssize_t got = 0;
         (got = ::read(pipe_.ends[0], buffer.data(), buffer.size())) > 0;
         console_.flush())
      all.append(buffer.data(), static_cast<size_t>(got));
    return all;
  }

  TestPipe pipe_;
  Console console_{pipe_.ends[1]};
  Relay relay_;
};

TEST_F(RelayTest, PassesBytesOnAsTheyCome) {
  const int out = add(0, false, here());
  EXPECT_FALSE(readable());
  write(out, "no end of a line");
  EXPECT_TRUE(readable());
  relay_.pass_on();
  EXPECT_FALSE(readable());
  EXPECT_EQ(shown(), "no end of a line");
  ::close(out);
}

TEST_F(RelayTest, MarksLinesWithTheirRank) {
  const int zero = add(0, false, here("[rank 0] "));
  const int one = add(1, false, here("[rank 1] "));
  write(zero, "half a ");
  write(one, "whole\n");
  relay_.pass_on();
  write(zero, "line\nand the last");
  relay_.pass_on();
  EXPECT_EQ(shown(), "[rank 1] whole\n[rank 0] half a line\n");
  ::close(zero);
  relay_.pass_on();
  EXPECT_EQ(shown(), "[rank 0] and the last\n") << "at its end, also without a newline";
  EXPECT_FALSE(readable()) << "a closed pipe must not be reported for ever";
  ::close(one);
}

TEST_F(RelayTest, DrainsWhatARankHasLeft) {
  const int out = add(0, false, here());
  const int err = add(0, true, here());
  const int other = add(1, true, here());
  write(out, std::string(60'000, 'o'));
  write(err, "e\n");
  write(other, "f\n");
  relay_.drain(0);
  EXPECT_EQ(shown(), std::string(60'000, 'o') + "e\n");
  relay_.drain(7);  // which is not there
  // Its children may go on printing.
  write(err, "more\n");
  relay_.pass_on();
  EXPECT_NE(shown().find("more\n"), std::string::npos);
  for (const int fd : {out, err, other})
    ::close(fd);
}

TEST_F(RelayTest, KnowsTheEndOfStderr) {
  const int out = add(2, false, here());
  const int err = add(2, true, here("> "));
  write(out, "not this\n");
  write(err, "one\ntwo\nthree\n");
  relay_.pass_on();
  EXPECT_EQ(relay_.last_lines(2, 2), "two\nthree");
  EXPECT_EQ(relay_.last_lines(0, 2), "");
  ::close(err);
  relay_.pass_on();
  EXPECT_EQ(relay_.last_lines(2, 1), "three") << "also when it is closed";
  ::close(out);
}

TEST_F(RelayTest, WritesFilesWithoutPrefix) {
  const testing::ScratchFolder folder;
  StreamTarget both = here("> ");
  both.file = open_log_file(folder.path() / "both");
  StreamTarget file{.file = open_log_file(folder.path() / "file")};
  const int one = add(0, false, both);
  const int two = add(0, true, file);
  write(one, "a\nb");
  write(two, "c\n");
  relay_.clear();
  EXPECT_EQ(shown(), "> a\n> b\n");
  EXPECT_EQ(read_text_file(folder.path() / "both"), "a\nb");
  EXPECT_EQ(read_text_file(folder.path() / "file"), "c\n");
  EXPECT_LT(::fcntl(both.file, F_GETFD), 0) << "closed with the stream";
  ::close(one);
  ::close(two);
}

TEST_F(RelayTest, ARankThatNobodyReadsGetsSigpipe) {
  const int out = add(0, false, here());
  pipe_.close(0);
  write(out, "a\n");
  relay_.pass_on();
  EXPECT_EQ(::write(out, "b\n", 2), -1);
  EXPECT_EQ(errno, EPIPE);
  ::close(out);
}

TEST_F(RelayTest, AFileGoesOnWhenTheConsoleIsGone) {
  const testing::ScratchFolder folder;
  StreamTarget both = here("> ");
  both.file = open_log_file(folder.path() / "both");
  const int out = add(0, false, both);
  pipe_.close(0);
  for (const char* line : {"a\n", "b\n", "c\n"}) {
    write(out, line);
    relay_.pass_on();
  }
  EXPECT_EQ(read_text_file(folder.path() / "both"), "a\nb\nc\n");
  ::close(out);
}

TEST_F(RelayTest, StartsAnewAfterAClear) {
  const int first = add(0, true, here("1 "));
  write(first, "old\nhalf");
  relay_.clear();
  EXPECT_EQ(shown(), "1 old\n1 half\n");
  EXPECT_EQ(relay_.last_lines(0, 5), "");
  const int second = add(0, true, here("2 "));
  write(second, "new\n");
  relay_.pass_on();
  EXPECT_EQ(shown(), "2 new\n");
  EXPECT_EQ(relay_.last_lines(0, 5), "new");
  ::close(first);
  ::close(second);
}

TEST_F(RelayTest, IsLeftByAChildWithoutHarm) {
  const int out = add(0, false, here());
  const pid_t child = ::fork();
  if (child == 0) {
    relay_.close_in_child();
    ::_exit(::fcntl(relay_.fd(), F_GETFD) < 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  write(out, "still there");
  EXPECT_TRUE(readable());
  relay_.pass_on();
  EXPECT_EQ(shown(), "still there");
  ::close(out);
}

}  // namespace
}  // namespace trireme::launch
