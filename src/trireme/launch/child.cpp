#include "trireme/launch/child.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/exec.h"
#include "trireme/core/file_descriptor.h"

namespace trireme::launch {
namespace {

// Gives errno's value, 0 for success.
int spawn(pid_t& pid, const ChildStart& start, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  const auto lines = variable_lines(Environment::of_process().merged(start.variables));
  const auto arguments = exec_pointers(start.command);
  const auto variables = exec_pointers(lines);
  const int code = ::posix_spawnp(
      &pid, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  return code;
}

}  // namespace

ChildProcess::ChildProcess(const ChildStart& start)
    : mark_(start.mark), deadline_(Deadline::after(start.limit)) {
  std::array<int, 2> ends{};
  std::array<int, 2> writing{-1, -1};
  for (size_t i = 0; i < 2; ++i) {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      const int error = errno;
      close_pipes();
      if (writing[0] >= 0)
        ::close(writing[0]);
      throw InternalError(text(
          "[launch] expected a pipe, got ",
          errno_text(error),
          error == EMFILE ? "; raise the limit of open files (ulimit -n)" : ""));
    }
    pipes_[i] = ends[0];
    writing[i] = ends[1];
  }
  const int code = spawn(pid_, start, writing[0], writing[1]);
  for (const int fd : writing)
    ::close(fd);
  if (code == 0)
    return;
  close_pipes();
  throw NotSupported(text(
      "[launch] expected to run ",
      in_quotes(start.command.empty() ? "" : start.command[0]),
      ", got ",
      errno_text(code),
      "; check the file, and ulimit -u"));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pipes_(std::exchange(other.pipes_, {-1, -1})),
      mark_(std::move(other.mark_)),
      deadline_(other.deadline_) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  close_pipes();
}

void ChildProcess::close_pipes() {
  for (int& fd : pipes_) {
    if (fd >= 0)
      ::close(fd);
    fd = -1;
  }
}

void ChildProcess::keep(
    std::string& text, std::string_view fresh, ChildResult& result) const {
  // A mark may come in pieces.
  const size_t from = text.size() - std::min(text.size(), mark_.size());
  text.append(fresh);
  if (!mark_.empty() && !result.marked && text.find(mark_, from) != std::string::npos)
    result.marked = std::chrono::steady_clock::now();
}

// Reads both pipes until the child has closed them; false if the time is over before.
bool ChildProcess::drain(ChildResult& result) {
  const std::array<std::string*, 2> texts = {&result.out, &result.err};
  std::array<pollfd, 2> waits = {
      pollfd{pipes_[0], POLLIN, 0}, pollfd{pipes_[1], POLLIN, 0}};
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_.remaining()).count();
    if (left == 0)
      return false;
    if (::poll(waits.data(), waits.size(), static_cast<int>(left)) < 0 &&
        errno != EINTR)
      return false;
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].fd < 0 || waits[i].revents == 0)
        continue;
      std::array<char, 4096> buffer{};
      const ssize_t got = ::read(waits[i].fd, buffer.data(), buffer.size());
      if (got > 0)
        keep(*texts[i], {buffer.data(), static_cast<size_t>(got)}, result);
      else if (got == 0 || errno != EINTR)
        waits[i].fd = -1;  // poll passes over it
    }
  }
  return true;
}

// A child may close its outputs and go on.
bool ChildProcess::ends_in_time() const {
  const FileDescriptor end(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd wait{end.get(), POLLIN, 0};
  while (end.get() >= 0) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_.remaining()).count();
    const int ready = ::poll(&wait, 1, static_cast<int>(left));
    if (ready > 0)
      return true;
    if (left == 0 || (ready < 0 && errno != EINTR))
      return false;
  }
  return false;
}

ChildResult ChildProcess::wait() {
  ChildResult result;
  result.out_of_time = !drain(result) || !ends_in_time();
  if (result.out_of_time)
    ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  else
    result.exit_code = WEXITSTATUS(status);
  return result;
}

ChildResult run_child(const ChildStart& start) {
  return ChildProcess(start).wait();
}

std::string failure_text(const ChildResult& result) {
  std::string how = text("exit code ", result.exit_code);
  if (result.out_of_time)
    how = "no answer in time";
  else if (result.signal != 0)
    how = text("signal ", result.signal, " (", ::strsignal(result.signal), ")");
  // The last line is where programs, and the loader, say what went wrong.
  std::string last = result.err;
  while (!last.empty() && last.back() == '\n')
    last.pop_back();
  last.erase(0, last.rfind('\n') + 1);
  return last.empty() ? how : text(how, ": ", escaped(last));
}

}  // namespace trireme::launch
