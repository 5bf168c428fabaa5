#include "trireme/launch/remotes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/exec.h"
#include "trireme/launch/program.h"
#include "trireme/launch/variables.h"

namespace trireme::launch {
namespace {

constexpr size_t kMostBlock = size_t{48} << 10;  // a pipe takes it without a reader

[[noreturn]] void refuse_block(const std::string& got) {
  throw InvalidArgument(text(
      "[launch] expected lines NAME=VALUE and an empty line on stdin, got ",
      got,
      "; leave --stdin-variables to trireme run --hosts"));
}

std::string remote_line(const RemoteNode& node) {
  std::string line =
      text("cd ", shell_word(std::filesystem::current_path().string()), " && exec");
  for (const std::string& word : node.command)
    line += text(" ", shell_word(word));
  return line;
}

[[noreturn]] void become_remote(
    const std::string& program,
    const std::vector<std::string>& command,
    int in,
    int err,
    const ProcessState& state,
    pid_t parent) {
  ::setpgid(0, 0);  // Ctrl-C is for the launcher, which tells all nodes
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent)
    ::_exit(1);
  ::dup2(in, STDIN_FILENO);
  ::dup2(err, STDERR_FILENO);
  state.restore();
  const auto arguments = exec_pointers(command);
  ::execv(program.c_str(), arguments.data());
  exec_failed("[launch] ", program.c_str());
}

}  // namespace

std::string shell_word(std::string_view word) {
  const bool plain =
      !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 ||
               std::string_view("/._-+:@%,=").find(static_cast<char>(c)) !=
                   std::string_view::npos;
      });
  if (plain)
    return std::string(word);
  std::string quoted = "'";
  for (const char c : word)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string variable_block(const Environment::Variables& variables) {
  std::string block;
  for (const auto& [name, value] : variables)
    if (value.find('\n') == std::string::npos)
      block += text(name, "=", value, "\n");
  block += "\n";
  if (block.size() > kMostBlock)
    throw InvalidArgument(text(
        "[launch] expected at most ",
        kMostBlock,
        " bytes of variables for other nodes, got ",
        block.size(),
        "; unset some of TRIREME_… and OMP_…"));
  return block;
}

void set_variables_from(int fd) {
  std::string line;
  for (size_t bytes = 0; bytes <= kMostBlock; ++bytes) {
    char c = 0;
    const ssize_t got = ::read(fd, &c, 1);
    if (got < 0 && errno == EINTR)
      continue;
    if (got != 1)
      refuse_block("an end");
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.empty())
      return;
    const size_t equals = line.find('=');
    if (equals == 0 || equals == std::string::npos)
      refuse_block("a line without a name");
    ::setenv(line.substr(0, equals).c_str(), line.c_str() + equals + 1, 1);
    ::explicit_bzero(line.data(), line.size());
    line.clear();
  }
  refuse_block("more than that");
}

Environment::Variables shared_variables(
    const Environment& env, const std::string& job_key) {
  Environment::Variables shared;
  for (const char* prefix : {"TRIREME_", "OMP_", "GLIBC_TUNABLES"})
    shared.merge(env.with_prefix(prefix));
  // What this launcher was told by one around it.
  for (const char* own : {"TRIREME_RANK_ROLL", "TRIREME_STORE", "TRIREME_CALLED_AS"})
    shared.erase(own);
  if (!job_key.empty()) {
    for (const char* name : kSecurityVariables)
      shared.erase(name);
    shared["TRIREME_JOB_KEY"] = job_key;
  }
  return shared;
}

Remotes::Remotes(
    const std::vector<RemoteNode>& nodes,
    const std::vector<std::string>& shell,
    const std::string& block,
    const ProcessState& state)
    : err_(STDERR_FILENO) {
  for (const RemoteNode& node : nodes)
    start(node, shell, block, state);
}

void Remotes::start(
    const RemoteNode& node,
    const std::vector<std::string>& shell,
    const std::string& block,
    const ProcessState& state) {
  const char* path = std::getenv("PATH");
  const std::string program =
      find_program(shell.at(0), path != nullptr ? path : "/usr/bin:/bin");
  std::vector<std::string> command = shell;
  command.insert(command.end(), {node.host, remote_line(node)});
  int in[2] = {-1, -1};
  int err[2] = {-1, -1};
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0)
    throw Error(
        text("[launch] expected a pipe, got ", errno_text(errno), "; raise ulimit -n"));
  const FileDescriptor ends[] = {
      FileDescriptor(in[0]), FileDescriptor(in[1]), FileDescriptor(err[1])};
  ::fcntl(err[0], F_SETFL, O_NONBLOCK);
  const int number = static_cast<int>(remotes_.size());
  relay_.add(
      number, true, err[0], {.console = &err_, .prefix = text("[", node.host, "] ")});
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0)
    become_remote(program, command, in[0], err[1], state, parent);
  if (pid < 0)
    throw Error(text(
        "[launch] expected to start ",
        in_quotes(shell.at(0)),
        ", got ",
        errno_text(errno),
        "; raise the limit of processes (ulimit -u)"));
  remotes_.push_back(
      {.host = node.host,
       .pid = pid,
       .end = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))});
  (void)!::write(in[1], block.data(), block.size());
}

Remotes::~Remotes() {
  for (const Remote& remote : remotes_)
    if (remote.pid > 0)
      ::kill(-remote.pid, SIGTERM);
  finish(Deadline::after(std::chrono::seconds(2)));
  for (const Remote& remote : remotes_)
    if (remote.pid > 0) {
      ::kill(-remote.pid, SIGKILL);
      ::waitpid(remote.pid, nullptr, 0);
    }
}

std::vector<int> Remotes::fds() const {
  std::vector<int> all = {relay_.fd()};
  for (const Remote& remote : remotes_)
    if (remote.pid > 0)
      all.push_back(remote.end.get());
  return all;
}

std::string Remotes::attend() {
  relay_.pass_on();
  std::string trouble;
  for (size_t i = 0; i < remotes_.size(); ++i)
    if (remotes_[i].pid > 0)
      reap(remotes_[i], trouble, static_cast<int>(i));
  err_.flush();
  return trouble;
}

void Remotes::reap(Remote& remote, std::string& trouble, int number) {
  int status = 0;
  if (::waitpid(remote.pid, &status, WNOHANG) != remote.pid)
    return;
  remote.pid = -1;
  relay_.drain(number);
  if (!trouble.empty())
    return;
  const Ending ending = ending_of(status);
  const std::string last = relay_.last_lines(number, 1);
  trouble = text(
      "expected to start a node on ",
      remote.host,
      ", but its command ",
      to_string(ending),
      last.empty() ? "" : text(": ", escaped(last)));
}

bool Remotes::running() const {
  return std::any_of(remotes_.begin(), remotes_.end(), [](const Remote& remote) {
    return remote.pid > 0;
  });
}

void Remotes::finish(const Deadline& deadline) {
  while (running() && !deadline.expired()) {
    std::vector<pollfd> waits;
    for (const int fd : fds())
      waits.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    ::poll(waits.data(), waits.size(), static_cast<int>(left.count()));
    attend();
  }
  relay_.clear();
  err_.flush();
}

}  // namespace trireme::launch
