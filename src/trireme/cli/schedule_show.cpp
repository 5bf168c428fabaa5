// `trireme schedule show` prints or draws one.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <unistd.h>

#include "trireme/cli/schedule_input.h"
#include "trireme/cli/schedule_words.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/draw.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/simulate.h"

namespace trireme::cli {
namespace {

// All or nothing: the name stands for a whole file, or for what was there before. What
// is no file, as /dev/stdout, is written to and not replaced.
void write_file(const std::string& path, const std::string& content) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool replace = !fs::exists(path, error) || fs::is_regular_file(path, error);
  // Behind a link lies the file that is meant.
  const fs::path target =
      fs::exists(path, error) ? fs::canonical(path, error) : fs::path(path);
  const std::string draft =
      replace ? text(target.native(), ".part-", ::getpid()) : path;
  std::ofstream file(draft, std::ios::binary);
  file << content;
  file.close();
  bool written = !file.fail();
  int code = errno;
  if (written && replace) {
    fs::rename(draft, target, error);
    written = !error;
    code = error.value();
  }
  if (written)
    return;
  if (replace)
    fs::remove(draft, error);
  throw InvalidArgument(
      text("[cli] wanted to write ", in_quotes(path), ": ", errno_text(code)));
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
