// Runs of `trireme train` itself, for what only the whole program shows: ranks that
// outnumber the cores, and the layout that it chooses by itself.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/bench/measure.h"
#include "trireme/train/layout.h"

namespace trireme::bench {

/// One run: the model that `trireme train` has when nothing is said.
struct TrainRun {
  int64_t batch = 16;
  /// What the command line says; 0: left to the program.
  train::Degrees degrees{.pp = 0, .dp = 0};
  /// Of pipelines; empty: chosen by the program, which takes its time.
  std::string schedule{};
  /// Steps that count, after a few that warm up.
  int steps = 12;
  /// The cores that it gets; 0: all that this process has.
  int cores = 0;
};

/// The command line of a run in `folder`, which gets its data and its output.
std::vector<std::string> run_command(
    const std::filesystem::path& program,
    const TrainRun& run,
    const std::filesystem::path& folder);

/// Tokens a second of the steps in a metrics.jsonl that count.
std::vector<double> read_speeds(const std::filesystem::path& metrics);

/// Runs it until the steps are done, and stops it. Tokens a second, step by step. Error
/// if the program fails, or does not get there within minutes.
std::vector<double> run_training(
    const std::filesystem::path& program, const TrainRun& run);

/// Layouts that a person might choose on so many cores for such a batch.
std::vector<train::Degrees> plausible_layouts(int cores, int64_t batch);

/// The fastest of them, at least one, by what `speed` gives. One run may be lucky: the
/// two that lead after the first are run until each has three, and their medians
/// decide.
train::Degrees fastest_layout(
    const std::vector<train::Degrees>& layouts,
    const std::function<double(const train::Degrees&)>& speed);

/// So many ranks on 2 cores beside 2 ranks there, with the same batch.
Record measure_crowd(const std::filesystem::path& program, int ranks, int rounds);

/// The layout that the program chooses, beside the fastest of the plausible ones. Says
/// on stderr what each of them reaches.
Record measure_layout(const std::filesystem::path& program, int64_t batch, int rounds);

}  // namespace trireme::bench
