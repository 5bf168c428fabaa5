// `trireme schedule`: schedules as text, files and pictures, checked, simulated and
// chosen.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace trireme::cli {

/// What the command line said.
struct ScheduleArguments {
  /// The name of a schedule, or a CSV file.
  std::string what;
  int ranks = 0;
  int microbatches = 0;
  int stages_per_rank = 0;
  bool lowered = false;
  std::string format;
  std::string output;
  std::string buffers = "unbounded";
  // Costs.
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  /// Else input_grad + weight_grad.
  std::optional<double> backward;
  double latency = 0;
  std::string bandwidth = "inf";
  double message_bytes = 0;
  double activation_bytes = 1;
  double overlap_gain = 0;
  std::string costs;
  std::optional<double> memory_limit;
};

/// Adds the words list, show, check, simulate and plan with their options.
void add_schedule_options(CLI::App& schedule, ScheduleArguments& arguments);

/// Runs the word: 0, 1 if a check finds a way to lock up or nothing fits a plan's
/// memory, 2 for what cannot be done as asked.
int run_schedule(
    const std::string& word,
    const ScheduleArguments& arguments,
    std::ostream& out,
    std::ostream& err);

}  // namespace trireme::cli
