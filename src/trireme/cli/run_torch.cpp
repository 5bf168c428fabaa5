#include "trireme/cli/run_torch.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::cli {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& program, const std::string& why) {
  throw NotSupported(text(
      "[cli] wanted to run ",
      escaped(program.string()),
      ", got ",
      why,
      "; build it (./trireme does), or install it beside trireme"));
}

void check_program(const std::filesystem::path& program) {
  if (::access(program.c_str(), F_OK) != 0)
    refuse(program, errno_text(errno));
  std::error_code error;
  if (!std::filesystem::is_regular_file(program, error) ||
      ::access(program.c_str(), X_OK) != 0)
    refuse(program, "something that is no executable file");
}

// The arguments as exec takes them; they live as long as the vectors that are given.
std::vector<char*> make_argv(
    const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

// A pipe that closes itself; neither end goes to children.
struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw InternalError(text("[cli] wanted a pipe, got ", errno_text(errno)));
  }
  ~Pipe() {
    close(0);
    close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close(size_t end) {
    if (ends[end] >= 0)
      ::close(ends[end]);
    ends[end] = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

pid_t spawn(
    const std::filesystem::path& program,
    const std::vector<std::string>& arguments,
    const Pipe& out,
    const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  pid_t pid = -1;
  const auto argv = make_argv(program, arguments);
  const int code =
      posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0)
    refuse(program, errno_text(code));
  return pid;
}

// Reads both pipes until the child has closed them; false if the time is over before.
bool drain(Pipe& out, Pipe& err, ChildResult& result, const Deadline& deadline) {
  const std::array<std::string*, 2> texts = {&result.out, &result.err};
  std::array<pollfd, 2> waits = {
      pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
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
        texts[i]->append(buffer.data(), static_cast<size_t>(got));
      else if (got == 0 || errno != EINTR)
        waits[i].fd = -1;  // poll passes over it
    }
  }
  return true;
}

}  // namespace

std::filesystem::path torch_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    throw NotSupported(text(
        "[cli] wanted to read /proc/self/exe, got ", error.message(), "; mount /proc"));
  return self.parent_path() / "trireme-torch";
}

void become_torch(
    const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  check_program(program);
  ::execv(program.c_str(), make_argv(program, arguments).data());
  refuse(program, errno_text(errno));
}

ChildResult run_torch(
    const std::filesystem::path& program,
    const std::vector<std::string>& arguments,
    std::chrono::milliseconds limit) {
  check_program(program);
  Pipe out;
  Pipe err;
  const pid_t pid = spawn(program, arguments, out, err);
  out.close(1);
  err.close(1);
  ChildResult result;
  result.out_of_time = !drain(out, err, result, Deadline::after(limit));
  if (result.out_of_time)
    ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  else
    result.exit_code = WEXITSTATUS(status);
  return result;
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

}  // namespace trireme::cli
