#include "trireme/bench/workers.h"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/core/machine.h"
#include "trireme/launch/placement.h"
#include "trireme/launch/program.h"
#include "trireme/launch/rank_process.h"
#include "trireme/launch/variables.h"

namespace trireme::bench {
namespace {

[[noreturn]] void system_failed(const char* wanted) {
  throw Error(text(
      "[bench] expected to ",
      wanted,
      ", got ",
      errno_text(errno),
      "; free memory, files or processes (ulimit -a)"));
}

std::string ending_text(int status) {
  if (WIFSIGNALED(status))
    return text("was killed by signal ", WTERMSIG(status));
  return text("ended with exit code ", WEXITSTATUS(status));
}

}  // namespace

std::vector<WorkerStart> rank_starts(
    const std::vector<std::string>& command,
    int ranks,
    const Environment::Variables& variables) {
  const launch::JobPlace place{
      .ranks = ranks,
      .local_ranks = ranks,
      .run_id = launch::fresh_run_id(),
      .master_port = launch::free_port(),
      .cores = available_cores()};
  std::vector<WorkerStart> starts;
  for (int rank = 0; rank < ranks; ++rank)
    starts.push_back(
        {.command = command,
         .variables = launch::rank_variables(place, rank, Environment(), variables)});
  return starts;
}

std::vector<WorkerStart> pinned(std::vector<WorkerStart> starts) {
  const auto cpus = launch::plan_cores(
      launch::read_cpus(allowed_cpus()), static_cast<int>(starts.size()));
  for (size_t i = 0; i < cpus.size(); ++i)
    starts[i].cpus = cpus[i];
  return starts;
}

WorkerTeam::WorkerTeam(
    std::string name,
    const std::vector<WorkerStart>& starts,
    const TeamOptions& options)
    : name_(std::move(name)), options_(options) {
  log_ = ::memfd_create("trireme-bench-log", MFD_CLOEXEC);
  if (log_ < 0)
    system_failed("make a file for the workers' messages");
  try {
    for (const WorkerStart& one : starts)
      start(one);
    collect(Deadline::after(options_.start_limit));
  } catch (...) {
    failed_ = true;
    stop();
    throw;
  }
}

WorkerTeam::~WorkerTeam() {
  stop();
}

void WorkerTeam::start(const WorkerStart& start) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    system_failed("connect to a worker");
  FileDescriptor ours(sockets[0]);
  const FileDescriptor theirs(sockets[1]);
  const Environment here = Environment::of_process();
  const std::string& name = start.command.at(0);
  const launch::RankBody body{
      .program = name.find('/') != std::string::npos
                     ? name
                     : launch::find_program(name, here.find("PATH").value_or("")),
      .arguments = start.command,
      .function = {}};
  const pid_t pid = launch::start_rank(
      {.rank = static_cast<int>(workers_.size()),
       .body = &body,
       .variables = here.merged(start.variables),
       .cpus = start.cpus,
       .in = theirs.get(),
       .out = theirs.get(),
       .err = log_,
       .leave = {}},
      launch::ProcessState::now());
  workers_.push_back({.pid = pid, .socket = ours.release(), .unread = {}});
}

Rows WorkerTeam::ask(const std::string& line, std::chrono::milliseconds limit) {
  const std::string message = line + "\n";
  for (size_t i = 0; i < workers_.size(); ++i) {
    const ssize_t sent =
        ::send(workers_[i].socket, message.data(), message.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(message.size()))
      give_up(i, "a worker that is gone");
  }
  return collect(Deadline::after(limit));
}

// All at once, since the one that fails is the one to hear: the others wait for it.
Rows WorkerTeam::collect(const Deadline& deadline) {
  std::vector<Rows> answers(workers_.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < workers_.size(); ++i)
    missing.push_back(i);
  while (!missing.empty()) {
    std::vector<pollfd> polls;
    for (const size_t i : missing)
      polls.push_back({.fd = workers_[i].socket, .events = POLLIN, .revents = 0});
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
    const int ready = ::poll(polls.data(), polls.size(), static_cast<int>(left));
    if (ready < 0 && errno != EINTR)
      system_failed("wait for the workers");
    if (ready == 0 && deadline.expired())
      give_up(missing.front(), text("none within ", deadline.allowed().count(), " ms"));
    std::vector<size_t> still;
    for (size_t place = 0; place < missing.size(); ++place) {
      const size_t i = missing[place];
      if (ready > 0 && polls[place].revents != 0)
        read_some(i);
      const size_t end = workers_[i].unread.find('\n');
      if (end == std::string::npos) {
        still.push_back(i);
        continue;
      }
      try {
        answers[i] = parse_answer(workers_[i].unread.substr(0, end));
      } catch (const Error& error) {
        give_up(i, error.what());
      }
      workers_[i].unread.erase(0, end + 1);
    }
    missing = std::move(still);
  }
  Rows rows;
  for (Rows& answer : answers)
    rows.insert(rows.end(), answer.begin(), answer.end());
  return rows;
}

void WorkerTeam::read_some(size_t index) {
  char bytes[65536];
  Worker& worker = workers_[index];
  const ssize_t got = ::recv(worker.socket, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (got > 0) {
    worker.unread.append(bytes, static_cast<size_t>(got));
    return;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  // It has closed its end, so it is about to end; how it ended says more.
  const Deadline deadline = Deadline::after(std::chrono::seconds(1));
  int status = 0;
  while (::waitpid(worker.pid, &status, WNOHANG) == 0) {
    if (deadline.expired())
      give_up(index, "a worker that closed its output");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  worker.pid = -1;
  give_up(index, text("a worker that ", ending_text(status)));
}

void WorkerTeam::give_up(size_t index, const std::string& got) {
  failed_ = true;
  const std::string tail = log_tail();
  throw Error(text(
      "[bench] expected an answer from ",
      name_,
      " worker ",
      index,
      ", got ",
      got,
      tail.empty() ? "; it left no message" : "; its last messages:\n",
      tail));
}

std::string WorkerTeam::log_tail() const {
  constexpr off_t kMost = 4000;
  const off_t size = ::lseek(log_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - kMost);
  std::string tail(static_cast<size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t got = ::pread(log_, tail.data(), tail.size(), from);
  tail.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  return tail;
}

void WorkerTeam::stop() noexcept {
  for (const Worker& worker : workers_)
    if (worker.socket >= 0)
      ::close(worker.socket);
  const Deadline deadline =
      Deadline::after(failed_ ? std::chrono::milliseconds(0) : options_.stop_limit);
  for (const Worker& worker : workers_) {
    if (worker.pid < 0)
      continue;
    bool killed = false;
    while (::waitpid(worker.pid, nullptr, killed ? 0 : WNOHANG) == 0) {
      killed = deadline.expired() && ::kill(worker.pid, SIGKILL) == 0;
      if (!killed)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  workers_.clear();
  if (log_ >= 0)
    ::close(log_);
  log_ = -1;
}

}  // namespace trireme::bench
