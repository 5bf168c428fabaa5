#include "trireme/testing/world.h"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/comm/init.h"
#include "trireme/comm/shm/shm_world.h"
#include "trireme/core/deadline.h"
#include "trireme/core/error.h"

namespace trireme::testing {
namespace {

void run_processes(int ranks, const RankBody& body, const WorldOptions& options) {
  const std::string job = fresh_job_name();
  Processes processes;
  for (int rank = 0; rank < ranks; ++rank)
    processes.start([&, rank] {
      const comm::Group world = join_job(job, rank, ranks, options.timeout);
      try {
        body(world);
      } catch (const std::exception& error) {
        world.abort(error.what());
        throw;
      }
      return 0;
    });
  expect_good_ends(processes.wait(options.timeout * 2));
}

int run_child(const std::function<int()>& body) {
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::cerr << "pid " << getpid() << ": " << error.what() << std::endl;
  }
  return ::testing::Test::HasFailure() ? 1 : code;
}

}  // namespace

std::string to_string(Backend backend) {
  switch (backend) {
    case Backend::Local:
      return "local";
    case Backend::ShmThreads:
      return "shm_threads";
    case Backend::Shm:
      break;
  }
  return "shm";
}

void run_world(
    Backend backend, int ranks, const RankBody& body, const WorldOptions& options) {
  if (backend == Backend::Shm)
    return run_processes(ranks, body, options);
  if (backend == Backend::Local)
    return comm::run_local(ranks, body, {.timeout = options.timeout});
  const comm::ShmThreadWorld world(ranks);
  comm::run_threads(
      ranks,
      [&world](int rank, const Deadline& deadline) {
        return world.join(rank, deadline);
      },
      body,
      {.timeout = options.timeout});
}

Processes::~Processes() {
  for (const pid_t pid : pids_)
    if (pid > 0)
      ::kill(pid, SIGKILL);
  for (const pid_t pid : pids_)
    if (pid > 0)
      ::waitpid(pid, nullptr, 0);
}

pid_t Processes::start(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    throw InternalError(text("[testing] expected to fork, got ", errno_text(errno)));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      ::_exit(1);
    const int code = run_child(body);
    std::fflush(nullptr);
    ::_exit(code);
  }
  pids_.push_back(pid);
  return pid;
}

void Processes::kill(size_t index, int signal) const {
  ::kill(pids_[index], signal);
}

std::vector<Ending> Processes::wait(std::chrono::milliseconds limit) {
  const Deadline deadline = Deadline::after(limit);
  std::vector<Ending> endings(pids_.size());
  for (size_t i = 0; i < pids_.size(); ++i) {
    int status = 0;
    while (::waitpid(pids_[i], &status, WNOHANG) == 0) {
      if (deadline.expired())
        ::kill(pids_[i], SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    endings[i] = {
        .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    pids_[i] = -1;
  }
  return endings;
}

void expect_good_ends(const std::vector<Ending>& endings) {
  std::string failed;
  for (size_t rank = 0; rank < endings.size(); ++rank)
    if (endings[rank].exit_code != 0)
      failed += text(
          failed.empty() ? "" : ", ",
          "rank ",
          rank,
          " (exit ",
          endings[rank].exit_code,
          ", signal ",
          endings[rank].signal,
          ")");
  if (!failed.empty())
    throw InternalError("[testing] expected every rank to end well, got " + failed);
}

void expect_noticed(const std::vector<Ending>& endings, int victim) {
  for (size_t rank = 0; rank < endings.size(); ++rank)
    if (rank == static_cast<size_t>(victim)) {
      EXPECT_EQ(endings[rank].signal, SIGKILL) << "rank " << rank;
    } else {
      EXPECT_EQ(endings[rank].exit_code, kNoticed)
          << "rank " << rank << " of victim " << victim;
    }
}

comm::Group join_job(
    const std::string& job, int rank, int ranks, std::chrono::milliseconds timeout) {
  const LaunchEnv env{
      .launcher = Launcher::Torchrun,
      .rank = rank,
      .world_size = ranks,
      .local_rank = rank,
      .local_world_size = ranks,
      .master_port = 1,
      .run_id = job};
  return comm::init(env, {.backend = "shm", .timeout = timeout});
}

std::string fresh_job_name() {
  static std::atomic<int> count{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return text("test-", getpid(), "-", now, "-", ++count);
}

}  // namespace trireme::testing
