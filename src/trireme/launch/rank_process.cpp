#include "trireme/launch/rank_process.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/exec.h"

namespace trireme::launch {
namespace {

constexpr int kCannotStart = 127;  // as a shell says it

void pin(const std::vector<int>& cpus) {
  if (cpus.empty())
    return;
  std::vector<cpu_set_t> mask(static_cast<size_t>(cpus.back()) / CPU_SETSIZE + 1);
  const size_t bytes = mask.size() * sizeof(cpu_set_t);
  for (const int cpu : cpus)
    CPU_SET_S(static_cast<size_t>(cpu), bytes, mask.data());
  // Without it the rank is only slower.
  (void)::sched_setaffinity(0, bytes, mask.data());
}

void take_place(const RankStart& start, const ProcessState& state, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(kCannotStart);
  pin(start.cpus);
  const int fds[] = {start.in, start.out, start.err};
  for (int target = 0; target < 3; ++target)
    if (fds[target] >= 0)
      ::dup2(fds[target], target);
  for (const int fd : {start.out, start.err})
    if (fd > STDERR_FILENO)
      ::close(fd);
  state.restore();
}

[[noreturn]] void run_function(const RankStart& start) {
  start.leave();
  ::prctl(PR_SET_NAME, text("rank ", start.rank).c_str());
  ::clearenv();
  for (const auto& [name, value] : start.variables)
    ::setenv(name.c_str(), value.c_str(), 1);
  int code = 1;
  try {
    code = start.body->function(start.rank);
  } catch (const std::exception& error) {
    std::cerr << "[launch] rank " << start.rank << " threw: " << error.what() << "\n";
  } catch (...) {
    std::cerr << "[launch] rank " << start.rank
              << " threw something that is not a std::exception\n";
  }
  // Not exit(): what the launcher has registered for its own end is not this process's.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

ProcessState ProcessState::now() {
  ProcessState state{};
  ::pthread_sigmask(SIG_SETMASK, nullptr, &state.signals);
  ::sigaction(SIGPIPE, nullptr, &state.on_pipe);
  ::sigaction(SIGCHLD, nullptr, &state.on_child);
  ::getrlimit(RLIMIT_NOFILE, &state.files);
  return state;
}

void ProcessState::restore() const {
  ::setrlimit(RLIMIT_NOFILE, &files);
  ::sigaction(SIGPIPE, &on_pipe, nullptr);
  ::sigaction(SIGCHLD, &on_child, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

pid_t start_rank(const RankStart& start, const ProcessState& state) {
  const auto lines = variable_lines(start.variables);
  const auto arguments = exec_pointers(start.body->arguments);
  const auto variables = exec_pointers(lines);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    throw Error(text(
        "[launch] expected to start rank ",
        start.rank,
        ", got ",
        errno_text(errno),
        "; start fewer ranks, or raise the limit of processes (ulimit -u)"));
  if (pid > 0) {
    ::setpgid(pid, pid);  // whoever is first: signals to the group must not miss it
    return pid;
  }
  take_place(start, state, parent);
  if (start.body->function)
    run_function(start);
  const char* program = start.body->program.c_str();
  ::execve(program, arguments.data(), variables.data());
  exec_failed("[launch] ", program);
}

}  // namespace trireme::launch
