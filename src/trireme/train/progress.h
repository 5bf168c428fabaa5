// What a person sees while a job trains.
#pragma once
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string>

#include "trireme/train/metrics.h"

namespace trireme::train {

enum class ProgressStyle {
  /// One line that is written again and again, for a terminal.
  Bar,
  /// A line every few steps, for files.
  Lines,
  None,
};

/// "bar", "lines", "none", or "auto": a bar if stderr is a terminal.
ProgressStyle progress_style(const std::string& word, bool terminal);

struct ProgressOptions {
  ProgressStyle style = ProgressStyle::Lines;
  /// Steps between two lines.
  int64_t every = 10;
  int64_t steps = 1;
  /// Columns of the terminal.
  int width = 80;
  /// What is trained on.
  std::string unit = "tokens";
};

/// Prints steps as they come, on one rank.
class Progress {
 public:
  Progress(std::ostream& out, const ProgressOptions& options);
  /// `seconds_left` as far as one can tell. The bar is drawn a few times a second, no
  /// more.
  void show(const StepMetrics& metrics, double seconds_left);
  /// A line of its own, above the bar.
  void say(const std::string& line);
  /// Ends the bar's line.
  void finish();

 private:
  void draw(const std::string& line, double part);

  std::ostream& out_;
  ProgressOptions options_;
  bool open_ = false;
  std::chrono::steady_clock::time_point drawn_{};
  /// The latest step, if its bar is still to be drawn.
  std::string late_;
  double late_part_ = 0;
};

/// The bar: "[=====>    ]", `width` columns in all.
std::string draw_bar(double part, int width);
/// "step 120/600  loss 2.113  12,345 tokens/s  bubble 8.1 %  210 MiB  1:02 left". In
/// less than that many columns memory and bubble go first, so that the time left stays.
std::string to_text(
    const StepMetrics& metrics,
    int64_t steps,
    double seconds_left,
    int width = std::numeric_limits<int>::max(),
    const std::string& unit = "tokens");
/// "1:02", "2:01:30".
std::string clock_text(double seconds);
/// With so many digits after the point.
std::string fixed(double value, int digits);

}  // namespace trireme::train
