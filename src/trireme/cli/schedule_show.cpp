// `trireme schedule show` prints or draws one.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <unistd.h>

#include "trireme/cli/schedule_input.h"
#include "trireme/cli/schedule_words.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/draw.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/simulate.h"

namespace trireme::cli {
namespace {

// What is no file, as /dev/stdout, is written to and not replaced.
void write_file(const std::string& path, const std::string& content) {
  namespace fs = std::filesystem;
  std::error_code error;
  // After a link comes the file that is meant.
  const fs::path target =
      fs::exists(path, error) ? fs::canonical(path, error) : fs::path(path);
  if (!fs::exists(path, error) || fs::is_regular_file(path, error)) {
    write_durably(target, content);
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (file.fail())
    throw InvalidArgument(text(
        "[cli] expected to write ",
        in_quotes(path),
        ", got ",
        errno_text(errno),
        "; name a place that can be written"));
}

std::string rows_of(const sched::Schedule& schedule) {
  std::string out = sched::to_csv(schedule);
  std::replace(out.begin(), out.end(), ',', ' ');
  return out;
}

}  // namespace

int show_schedule(const ScheduleArguments& arguments, std::ostream& out) {
  sched::Schedule schedule = read_schedule(arguments, {.costs = {}, .layers = {}});
  if (arguments.lowered && !schedule.lowered)
    schedule = sched::lower(schedule);
  const std::string format = arguments.format.empty() ? "grid" : arguments.format;
  std::string content;
  if (format == "csv")
    content = sched::to_csv(schedule);
  else if (format == "json")
    content = sched::to_json(schedule);
  else if (format == "grid")
    content =
        arguments.lowered
            ? rows_of(schedule)
            : sched::draw_grid(
                  schedule, arguments.output.empty() && ::isatty(STDOUT_FILENO) == 1);
  else {
    const auto result = sched::simulate(schedule, {.costs = {}, .details = true});
    content = format == "svg" ? sched::draw_svg(schedule, result)
                              : sched::to_trace(schedule, result);
  }
  if (arguments.output.empty())
    out << content;
  else
    write_file(arguments.output, content);
  return 0;
}

}  // namespace trireme::cli
