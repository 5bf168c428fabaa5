#include "trireme/bench/launch_sides.h"

#include <charconv>
#include <chrono>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "trireme/bench/workers.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/launch/child.h"
#include "trireme/launch/processes.h"

namespace trireme::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLimit = std::chrono::minutes(2);

std::vector<std::string> worker_command(const std::filesystem::path& program) {
  return {program.string(), "bench", "--worker", "launch"};
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// When rank 0 passed the barrier, by the clock that all processes of a host share.
Clock::time_point barrier_time(const launch::ChildResult& result) {
  const size_t mark = result.out.find(kBarrierMark);
  int64_t ticks = 0;
  if (mark != std::string::npos) {
    const char* start =
        result.out.data() + mark + std::string_view(kBarrierMark).size();
    std::from_chars(start, result.out.data() + result.out.size(), ticks);
  }
  if (!result.ok() || ticks == 0)
    throw Error(text(
        "[bench] expected the ranks to meet at a barrier, got ",
        launch::failure_text(result),
        "; its messages:\n",
        result.err));
  return Clock::time_point(std::chrono::nanoseconds(ticks));
}

}  // namespace

std::vector<std::string> launcher_command(
    const std::filesystem::path& program, int ranks) {
  std::vector<std::string> command{
      (program.parent_path() / "trireme").string(), "run", "-n", text(ranks), "--"};
  for (const std::string& word : worker_command(program))
    command.push_back(word);
  return command;
}

std::vector<std::string> torchrun_command(
    const std::vector<std::string>& python,
    const std::filesystem::path& program,
    int ranks) {
  std::vector<std::string> command = python;
  for (const std::string& word :
       {std::string("-m"),
        std::string("torch.distributed.run"),
        std::string("--standalone"),
        std::string("--no-python"),
        text("--nproc-per-node=", ranks)})
    command.push_back(word);
  for (const std::string& word : worker_command(program))
    command.push_back(word);
  return command;
}

LaunchTimes time_command(const std::vector<std::string>& command) {
  const auto start = Clock::now();
  const launch::ChildResult result =
      launch::run_child({.command = command, .limit = kLimit});
  const auto end = Clock::now();
  return {
      .barrier = microseconds(barrier_time(result) - start),
      .total = microseconds(end - start)};
}

LaunchTimes time_by_hand(const std::filesystem::path& program, int ranks) {
  const auto starts = rank_starts(worker_command(program), ranks, {});
  const auto start = Clock::now();
  std::vector<launch::ChildProcess> children;
  for (const WorkerStart& one : starts)
    children.emplace_back(launch::ChildStart{
        .command = one.command, .variables = one.variables, .limit = kLimit});
  LaunchTimes times;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    const launch::ChildResult result = children[rank].wait();
    if (rank == 0)
      times.barrier = microseconds(barrier_time(result) - start);
  }
  times.total = microseconds(Clock::now() - start);
  return times;
}

double launcher_memory(const std::filesystem::path& program, int ranks) {
  // Long enough to be looked at; it is ended when that is done.
  launch::ChildProcess launcher(
      {.command =
           {(program.parent_path() / "trireme").string(),
            "run",
            "-n",
            text(ranks),
            "--",
            "sleep",
            "60"},
       .limit = kLimit});
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (true) {
    const auto keepers = launch::find_processes(
        [&](pid_t, const ProcessStat& stat) { return stat.parent == launcher.pid(); });
    size_t started = 0;
    if (!keepers.empty())
      started = launch::find_processes([&](pid_t, const ProcessStat& stat) {
                  return stat.parent == keepers[0];
                }).size();
    if (started >= static_cast<size_t>(ranks))
      return static_cast<double>(
          peak_memory_kib(launcher.pid()) + peak_memory_kib(keepers[0]));
    if (deadline.expired())
      throw TimeoutError(text(
          "[bench] expected ",
          ranks,
          " ranks within 20 s, got ",
          started,
          " processes; look at the program's own output"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace trireme::bench
