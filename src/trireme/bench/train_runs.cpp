#include "trireme/bench/train_runs.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iostream>
#include <sched.h>
#include <thread>

#include <nlohmann/json.hpp>

#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/core/median.h"
#include "trireme/core/scratch_folder.h"
#include "trireme/launch/child.h"

namespace trireme::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kWarmUp = 3;
constexpr auto kLimit = std::chrono::minutes(3);
constexpr int kCrowdedCores = 2;
constexpr int kRunsOfLeaders = 3;

/// While it lives, this process, and what it starts, has only the first few cores.
class CoreLimit {
 public:
  explicit CoreLimit(int cores) {
    const std::vector<int> allowed = allowed_cpus();
    if (cores == 0 || static_cast<size_t>(cores) >= allowed.size())
      return;
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0)
      return;
    cpu_set_t few;
    CPU_ZERO(&few);
    for (int i = 0; i < cores; ++i)
      CPU_SET(static_cast<size_t>(allowed[static_cast<size_t>(i)]), &few);
    changed_ = ::sched_setaffinity(0, sizeof few, &few) == 0;
  }
  ~CoreLimit() {
    if (changed_)
      ::sched_setaffinity(0, sizeof before_, &before_);
  }
  CoreLimit(const CoreLimit&) = delete;
  CoreLimit& operator=(const CoreLimit&) = delete;

 private:
  cpu_set_t before_{};
  bool changed_ = false;
};

std::string name_of(const train::Degrees& degrees) {
  return text(degrees.dp, " data parallel x ", degrees.pp, " pipeline");
}

}  // namespace

std::vector<std::string> run_command(
    const fs::path& program, const TrainRun& run, const fs::path& folder) {
  std::vector<std::string> command{
      (program.parent_path() / "trireme").string(),
      "train",
      "--job.dump_folder",
      (folder / "run").string(),
      "--data.path",
      (folder / "text.txt").string(),
      "--training.global_batch_size",
      text(run.batch),
      "--checkpoint.enable",
      "false",
      "--metrics.progress",
      "none"};
  const auto add = [&](const char* key, int value) {
    if (value != 0)
      command.insert(command.end(), {key, text(value)});
  };
  add("--parallelism.pipeline_parallel_degree", run.degrees.pp);
  add("--parallelism.data_parallel_replicate_degree", run.degrees.dp);
  if (!run.schedule.empty())
    command.insert(
        command.end(), {"--parallelism.pipeline_parallel_schedule", run.schedule});
  return command;
}

std::vector<double> read_speeds(const fs::path& metrics) {
  std::ifstream in(metrics);
  std::vector<double> speeds;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    // The last line may be half written.
    const auto step = nlohmann::json::parse(line, nullptr, false);
    if (step.is_discarded() || ++number <= kWarmUp)
      continue;
    speeds.push_back(step.at("tokens_per_s").get<double>());
  }
  return speeds;
}

std::vector<double> run_training(const fs::path& program, const TrainRun& run) {
  const ScratchFolder folder;
  std::string words;
  for (int i = 0; i < 20000; ++i)
    words += text("row ", i, " of oars\n");
  folder.write("text.txt", words);
  const auto wanted = static_cast<size_t>(run.steps);
  std::vector<double> speeds;
  const CoreLimit cores(run.cores);
  launch::ChildProcess child(
      {.command = run_command(program, run, folder.path()),
       .variables = {},
       .limit = kLimit});
  const Deadline deadline = Deadline::after(kLimit);
  while (speeds.size() < wanted && !deadline.expired() &&
         process_start_time(child.pid()) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    speeds = read_speeds(folder.path() / "run" / "metrics.jsonl");
  }
  ::kill(child.pid(), SIGTERM);
  const launch::ChildResult result = child.wait();
  if (speeds.size() < wanted)
    throw Error(text(
        "[bench] expected ",
        run.steps,
        " steps of training, got ",
        speeds.size(),
        " and ",
        launch::failure_text(result),
        "; its messages:\n",
        result.err));
  speeds.resize(wanted);
  return speeds;
}

std::vector<train::Degrees> plausible_layouts(int cores, int64_t batch) {
  std::vector<train::Degrees> all;
  for (const int pp : {1, 2})
    for (int dp = 1; dp * pp <= cores; dp *= 2)
      // As many microbatches as ranks, or a pipeline makes no sense.
      if (batch % dp == 0 && batch / dp >= pp)
        all.push_back({.pp = pp, .dp = dp});
  return all;
}

Record measure_crowd(const fs::path& program, int ranks, int rounds) {
  Record record{.unit = "tokens/s"};
  const auto speeds = [&](int count) {
    return run_training(
        program,
        {.batch = 32,
         .degrees = {.pp = 2, .dp = count / 2},
         .schedule = "1F1B",
         .cores = kCrowdedCores});
  };
  for (int round = 0; round < rounds; ++round) {
    record.ours.add_round(speeds(ranks));
    record.peer.add_round(speeds(2));
  }
  return record;
}

train::Degrees fastest_layout(
    const std::vector<train::Degrees>& layouts,
    const std::function<double(const train::Degrees&)>& speed) {
  struct Tried {
    train::Degrees degrees;
    std::vector<double> speeds;
    bool operator<(const Tried& other) const {
      return median(speeds) > median(other.speeds);
    }
  };
  std::vector<Tried> tried;
  for (const train::Degrees& degrees : layouts)
    tried.push_back({degrees, {speed(degrees)}});
  std::stable_sort(tried.begin(), tried.end());
  const auto leaders = tried.begin() + std::min<std::ptrdiff_t>(2, std::ssize(tried));
  for (int run = 1; run < kRunsOfLeaders; ++run)
    for (auto leader = tried.begin(); leader != leaders; ++leader)
      leader->speeds.push_back(speed(leader->degrees));
  return std::min_element(tried.begin(), leaders)->degrees;
}

Record measure_layout(const fs::path& program, int64_t batch, int rounds) {
  Record record{.unit = "tokens/s"};
  const auto layouts = plausible_layouts(available_cores(), batch);
  const train::Degrees best =
      fastest_layout(layouts, [&](const train::Degrees& degrees) {
        const double speed =
            median(run_training(program, {.batch = batch, .degrees = degrees}));
        std::cerr << "  " << name_of(degrees) << ": " << std::llround(speed)
                  << " tokens/s\n";
        return speed;
      });
  for (int round = 0; round < rounds; ++round) {
    record.ours.add_round(run_training(program, {.batch = batch}));
    record.peer.add_round(run_training(program, {.batch = batch, .degrees = best}));
  }
  std::cerr << "  chosen: " << std::llround(record.our_value()) << " tokens/s, "
            << name_of(best) << ": " << std::llround(*record.peer_value()) << "\n";
  return record;
}

}  // namespace trireme::bench
