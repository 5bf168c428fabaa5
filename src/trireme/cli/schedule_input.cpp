#include "trireme/cli/schedule_input.h"

#include <filesystem>
#include <fstream>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"
#include "trireme/core/proc_text.h"
#include "trireme/sched/auto.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/validate.h"

namespace trireme::cli {
namespace {

double parse_bandwidth(const std::string& word) {
  if (word == "inf")
    return std::numeric_limits<double>::infinity();
  const auto value = parse_number<double>(word);
  if (!value || !(*value > 0))
    throw InvalidArgument(text(
        "[cli] expected --bandwidth to be a number above 0 or inf, got ",
        in_quotes(word),
        "; give bytes for each unit of time"));
  return *value;
}

bool is_file(const std::string& what) {
  return what.ends_with(".csv") || what.find('/') != std::string::npos;
}

// What the words say of a file's size has to be true.
void check_size(
    const ScheduleArguments& arguments, const char* option, int asked, int64_t got) {
  if (asked != 0 && asked != got)
    throw InvalidArgument(text(
        "[cli] expected ",
        in_quotes(arguments.what),
        " to fit ",
        option,
        " ",
        asked,
        ", got ",
        got,
        "; leave the option out"));
}

sched::Schedule load_file(const ScheduleArguments& arguments) {
  auto schedule = sched::parse_csv(read_input(arguments.what), arguments.what);
  sched::validate(schedule);
  check_size(arguments, "--ranks", arguments.ranks, schedule.ranks());
  check_size(
      arguments, "--microbatches", arguments.microbatches, schedule.microbatches);
  check_size(
      arguments,
      "--stages-per-rank",
      arguments.stages_per_rank,
      schedule.stages() / schedule.ranks());
  return schedule;
}

}  // namespace

std::string read_input(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw InvalidArgument(text(
        "[cli] expected a file, got ",
        in_quotes(path),
        std::filesystem::exists(path, error) ? ", which is not a regular file"
                                             : ", which does not exist",
        "; correct the path"));
  if (!std::ifstream(path))
    throw InvalidArgument(text(
        "[cli] expected to read ",
        in_quotes(path),
        ", got ",
        errno_text(errno),
        "; make it readable"));
  return read_text_file(path).value_or("");
}

sched::CostFile read_costs(const ScheduleArguments& arguments) {
  sched::CostFile file;
  if (!arguments.costs.empty())
    file = sched::parse_costs(read_input(arguments.costs), arguments.costs);
  else
    file.costs.stages = {
        {.forward = arguments.forward,
         .input_grad = arguments.input_grad,
         .weight_grad = arguments.weight_grad,
         .backward =
             arguments.backward.value_or(arguments.input_grad + arguments.weight_grad),
         .activation_bytes = arguments.activation_bytes}};
  file.costs.link = {
      .latency = arguments.latency, .bandwidth = parse_bandwidth(arguments.bandwidth)};
  file.costs.overlap_gain = arguments.overlap_gain;
  if (arguments.message_bytes != 0)
    file.costs.message_bytes = arguments.message_bytes;
  return file;
}

sched::Schedule read_schedule(
    const ScheduleArguments& arguments, const sched::CostFile& costs) {
  if (is_file(arguments.what))
    return load_file(arguments);
  if (arguments.ranks == 0 || arguments.microbatches == 0)
    throw InvalidArgument(text(
        "[cli] expected --ranks and --microbatches for ",
        in_quotes(arguments.what),
        ", got ",
        arguments.ranks != 0 || arguments.microbatches != 0 ? "only one" : "neither",
        "; give both"));
  const sched::ScheduleSize size{
      .ranks = arguments.ranks,
      .microbatches = arguments.microbatches,
      .stages_per_rank = arguments.stages_per_rank};
  return sched::is_auto(arguments.what) ? sched::make_auto(size, costs).schedule
                                        : sched::generate(arguments.what, size);
}

}  // namespace trireme::cli
