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

// Often enough for people, and seldom enough for a connection from far away.
constexpr std::chrono::milliseconds kRedraw{100};

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

std::string to_text(
    const StepMetrics& metrics,
    int64_t steps,
    double seconds_left,
    int width,
    const std::string& unit) {
  const std::string first = text(
      "step ",
      metrics.step,
      "/",
      steps,
      "  loss ",
      fixed(metrics.loss, 3),
      "  ",
      with_thousands(std::llround(metrics.tokens_per_s)),
      " ",
      unit,
      "/s");
  const std::string last = text("  ", clock_text(seconds_left), " left");
  std::string middle;
  for (const std::string& part :
       {text("  bubble ", fixed(100 * metrics.bubble, 1), " %"),
        text("  ", bytes_text(metrics.peak_bytes))}) {
    const size_t all = first.size() + middle.size() + part.size() + last.size();
    if (all > static_cast<size_t>(std::max(0, width)))
      break;
    middle += part;
  }
  return text(first, middle, last);
}

Progress::Progress(std::ostream& out, const ProgressOptions& options)
    : out_(out), options_(options) {}

void Progress::show(const StepMetrics& metrics, double seconds_left) {
  if (options_.style == ProgressStyle::None)
    return;
  if (options_.style == ProgressStyle::Lines) {
    if (metrics.step == 1 || metrics.step % options_.every == 0 ||
        metrics.step == options_.steps)
      out_ << to_text(
                  metrics,
                  options_.steps,
                  seconds_left,
                  std::numeric_limits<int>::max(),
                  options_.unit)
           << std::endl;
    return;
  }
  late_ =
      to_text(metrics, options_.steps, seconds_left, options_.width - 1, options_.unit);
  late_part_ = static_cast<double>(metrics.step) / static_cast<double>(options_.steps);
  const auto now = std::chrono::steady_clock::now();
  if (open_ && now - drawn_ < kRedraw)
    return;
  drawn_ = now;
  draw(late_, late_part_);
  late_.clear();
}

void Progress::draw(const std::string& line, double part) {
  const int room = options_.width - static_cast<int>(line.size()) - 3;
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
  if (open_ && !late_.empty())
    draw(late_, late_part_);
  late_.clear();
  if (open_)
    out_ << "\n" << std::flush;
  open_ = false;
}

}  // namespace trireme::train
