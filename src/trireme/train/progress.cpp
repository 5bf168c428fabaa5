#include "trireme/train/progress.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "trireme/core/error.h"
#include "trireme/core/number_text.h"

namespace trireme::train {
namespace {

std::string two_digits(int64_t value) {
  return text(value < 10 ? "0" : "", value);
}

}  // namespace

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

ProgressStyle progress_style(const std::string& word, bool terminal) {
  if (word == "none")
    return ProgressStyle::None;
  if (word == "bar" || (word == "auto" && terminal))
    return ProgressStyle::Bar;
  return ProgressStyle::Lines;
}

std::string draw_bar(double part, int width) {
  const int inside = std::max(1, width - 2);
  const int full =
      static_cast<int>(std::clamp(part, 0.0, 1.0) * static_cast<double>(inside));
  std::string bar;
  for (int i = 0; i < inside; ++i)
    bar += i < full ? '=' : i == full ? '>' : ' ';
  return text("[", bar, "]");
}

std::string clock_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0)
    return "?";
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e9)));
  const int64_t hours = whole / 3600;
  const int64_t minutes = whole / 60 % 60;
  return hours > 0 ? text(hours, ":", two_digits(minutes), ":", two_digits(whole % 60))
                   : text(minutes, ":", two_digits(whole % 60));
}

std::string to_text(const StepMetrics& metrics, int64_t steps, double seconds_left) {
  return text(
      "step ",
      metrics.step,
      "/",
      steps,
      "  loss ",
      fixed(metrics.loss, 3),
      "  ",
      with_thousands(std::llround(metrics.tokens_per_s)),
      " tokens/s  bubble ",
      fixed(100 * metrics.bubble, 1),
      " %  ",
      bytes_text(metrics.peak_bytes),
      "  ",
      clock_text(seconds_left),
      " left");
}

Progress::Progress(std::ostream& out, const ProgressOptions& options)
    : out_(out), options_(options) {}

void Progress::show(const StepMetrics& metrics, double seconds_left) {
  if (options_.style == ProgressStyle::None)
    return;
  const std::string line = to_text(metrics, options_.steps, seconds_left);
  if (options_.style == ProgressStyle::Lines) {
    if (metrics.step == 1 || metrics.step % options_.every == 0 ||
        metrics.step == options_.steps)
      out_ << line << std::endl;
    return;
  }
  const int room = options_.width - static_cast<int>(line.size()) - 3;
  const double part =
      static_cast<double>(metrics.step) / static_cast<double>(options_.steps);
  out_ << "\r\033[K"
       << (room >= 8 ? text(draw_bar(part, std::min(room, 24)), "  ") : "")
       << line.substr(0, static_cast<size_t>(std::max(1, options_.width - 1)))
       << std::flush;
  open_ = true;
}

void Progress::say(const std::string& line) {
  if (options_.style == ProgressStyle::None)
    return;
  if (open_)
    out_ << "\r\033[K";
  open_ = false;
  out_ << line << std::endl;
}

void Progress::finish() {
  if (open_)
    out_ << "\n" << std::flush;
  open_ = false;
}

}  // namespace trireme::train
