// Programs as children of a test, with all that they print, and what they leave behind.
#pragma once
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/core/proc_text.h"
#include "trireme/launch/options.h"
#include "trireme/launch/processes.h"

namespace trireme::launch {

using namespace std::chrono_literals;

/// Long enough for anything on a busy machine; a test that waits for it has failed.
inline constexpr std::chrono::milliseconds kLong = 60s;

/// Looks again and again; false if the time is over before.
inline bool within(
    std::chrono::milliseconds limit, const std::function<bool()>& holds) {
  const Deadline deadline = Deadline::after(limit);
  while (!holds()) {
    if (deadline.expired())
      return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// A word for the arguments of the processes of one test, to find them by. What still
/// has it when this object goes is killed.
class Mark {
 public:
  Mark() = default;
  ~Mark() {
    for (const pid_t pid : found())
      ::kill(pid, SIGKILL);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  const std::string& word() const { return word_; }

  /// The processes that have it; zombies are not among them.
  std::vector<pid_t> found() const {
    return find_processes([this](pid_t pid, const ProcessStat&) {
      const auto words = read_text_file(text("/proc/", pid, "/cmdline"));
      return pid != ::getpid() && words && words->find(word_) != std::string::npos;
    });
  }
  bool gone_within(std::chrono::milliseconds limit) const {
    return within(limit, [this] { return found().empty(); });
  }

 private:
  static int next() {
    static int count = 0;
    return ++count;
  }
  std::string word_ = text(
      "mark-",
      ::getpid(),
      "-",
      next(),
      "-",
      std::chrono::steady_clock::now().time_since_epoch().count());
};

/// A port that is free, and not among those that the system gives away: nobody else
/// gets it before it is used.
inline int quiet_port() {
  std::random_device random;
  for (int i = 0; i < 1000; ++i) {
    const auto port = static_cast<uint16_t>(12'000 + random() % 18'000);
    const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) ==
        0)
      return port;
  }
  ADD_FAILURE() << "no port is free";
  return 0;
}

/// A pipe that closes itself; neither end goes to programs.
struct TestPipe {
  TestPipe() { EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0); }
  ~TestPipe() {
    close(0);
    close(1);
  }
  TestPipe(const TestPipe&) = delete;
  TestPipe& operator=(const TestPipe&) = delete;
  void close(size_t end) {
    if (ends[end] >= 0)
      ::close(ends[end]);
    ends[end] = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

/// A running program. It is killed with this object.
class Launched {
 public:
  /// `prepare` is called in the child before the program starts.
  explicit Launched(
      const std::vector<std::string>& command,
      const std::function<void()>& prepare = {}) {
    pid_ = ::fork();
    if (pid_ == 0)
      become(command, prepare);
    EXPECT_GT(pid_, 0);
    out_.close(1);
    err_.close(1);
    in_.close(0);
  }
  ~Launched() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& out() const { return texts_[0]; }
  const std::string& err() const { return texts_[1]; }
  void kill(int signal) const { ::kill(pid_, signal); }

  /// Gives it something to read; an end without anything.
  void write(const std::string& input) {
    EXPECT_EQ(
        ::write(in_.ends[1], input.data(), input.size()),
        static_cast<ssize_t>(input.size()));
  }
  void end_input() { in_.close(1); }
  void stop_reading_out() { out_.close(0); }

  /// Reads until stdout holds `part` so many times; false if that does not come.
  bool says(const std::string& part, int times = 1) {
    return read_until([&] { return count(out(), part) >= times; });
  }
  bool complains(const std::string& part, int times = 1) {
    return read_until([&] { return count(err(), part) >= times; });
  }

  /// The same for what it has printed by now.
  bool complains_now(const std::string& part) {
    read_until([&] { return count(err(), part) > 0; }, 10ms);
    return count(err(), part) > 0;
  }

  /// Waits for its end, reading; code -1 if it does not come.
  Ending finish(std::chrono::milliseconds limit = kLong) {
    in_.close(1);
    read_until([] { return false; }, limit);
    return ending(limit);
  }

  /// Waits for its end without reading anything.
  Ending ending(std::chrono::milliseconds limit = kLong) {
    int status = 0;
    const bool ended =
        within(limit, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended) {
      ADD_FAILURE() << "it has not ended\n" << out() << err();
      return {.exit_code = -1};
    }
    pid_ = -1;
    if (WIFSIGNALED(status))
      return {.signal = WTERMSIG(status)};
    return {.exit_code = WEXITSTATUS(status)};
  }

  static int count(const std::string& all, const std::string& part) {
    int found = 0;
    for (size_t at = all.find(part); at != std::string::npos;
         at = all.find(part, at + part.size()))
      ++found;
    return found;
  }

 private:
  [[noreturn]] void become(
      const std::vector<std::string>& command, const std::function<void()>& prepare) {
    ::dup2(in_.ends[0], STDIN_FILENO);
    ::dup2(out_.ends[1], STDOUT_FILENO);
    ::dup2(err_.ends[1], STDERR_FILENO);
    if (prepare)
      prepare();
    std::vector<char*> words;
    for (const std::string& word : command)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }

  // Until it holds, both pipes are at their ends, or the time is over.
  bool read_until(
      const std::function<bool()>& holds, std::chrono::milliseconds limit = kLong) {
    const Deadline deadline = Deadline::after(limit);
    while (!holds()) {
      std::array<pollfd, 2> waits = {
          pollfd{.fd = out_.ends[0], .events = POLLIN, .revents = 0},
          pollfd{.fd = err_.ends[0], .events = POLLIN, .revents = 0}};
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
      if ((waits[0].fd < 0 && waits[1].fd < 0) || left == 0)
        return false;
      ::poll(waits.data(), waits.size(), static_cast<int>(left));
      for (size_t i = 0; i < waits.size(); ++i)
        if (waits[i].revents != 0)
          read_some(i == 0 ? out_ : err_, texts_[i]);
    }
    return true;
  }
  static void read_some(TestPipe& pipe, std::string& into) {
    std::array<char, 65536> buffer;
    const ssize_t got = ::read(pipe.ends[0], buffer.data(), buffer.size());
    if (got > 0)
      into.append(buffer.data(), static_cast<size_t>(got));
    else if (got == 0 || errno != EINTR)
      pipe.close(0);
  }

  TestPipe in_, out_, err_;
  std::array<std::string, 2> texts_;
  pid_t pid_ = -1;
};

}  // namespace trireme::launch
