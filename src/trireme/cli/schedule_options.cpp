// The command line of `trireme schedule`.
#include <cmath>

#include <CLI/CLI.hpp>

#include "trireme/cli/output.h"
#include "trireme/cli/schedule.h"

namespace trireme::cli {
namespace {

using Formats = std::vector<std::string>;

void add_format(CLI::App& word, ScheduleArguments& arguments, const Formats& formats) {
  std::string all;
  for (const std::string& format : formats)
    all += (all.empty() ? "" : "|") + format;
  word.add_option("--format", arguments.format, "How to print: " + all)
      ->check(CLI::IsMember(formats).description(""))
      ->type_name("FORMAT");
}

CLI::Validator at_least_one() {
  return CLI::Validator(
      [](const std::string& word) -> std::string {
        int value = 0;
        if (CLI::detail::lexical_cast(word, value) && value >= 1)
          return {};
        return "expected a whole number of at least 1, got " + word;
      },
      "");
}

// An empty name, as of a variable that is not set, is not the same as none.
CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& word) -> std::string {
        return word.empty() ? "expected the name of a file, got \"\"" : "";
      },
      "");
}

// A number of something, at least one.
CLI::Option* add_count(
    CLI::App& word,
    const std::string& name,
    const std::string& letter,
    int& value,
    const std::string& does) {
  return word.add_option(name, value, does)->check(at_least_one())->type_name(letter);
}

void add_size(CLI::App& word, ScheduleArguments& arguments) {
  word.add_option(
          "WHAT",
          arguments.what,
          "The name of a schedule (trireme schedule list) or a CSV file")
      ->type_name("NAME|FILE.csv")
      ->required();
  add_count(word, "--ranks", "P", arguments.ranks, "Ranks of the pipeline");
  add_count(
      word, "--microbatches", "M", arguments.microbatches, "Microbatches of a step");
  add_count(
      word,
      "--stages-per-rank",
      "V",
      arguments.stages_per_rank,
      "Stages of each rank; if not given, as many as the schedule is made for");
}

// CLI::NonNegativeNumber lets nan through.
CLI::Validator at_least_zero() {
  return CLI::Validator(
      [](const std::string& word) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(word, value) && value >= 0 &&
            std::isfinite(value))
          return {};
        return "expected a number of at least 0, got " + word;
      },
      "");
}

void add_costs(CLI::App& word, ScheduleArguments& arguments) {
  CLI::Option* file =
      word.add_option(
              "--costs", arguments.costs, "A cost file instead (docs/schedules.md)")
          ->check(not_empty())
          ->type_name("FILE.json");
  const auto add = [&](const std::string& name, auto& value, const std::string& does) {
    return word.add_option(name, value, does)
        ->check(at_least_zero())
        ->type_name("X")
        ->capture_default_str();
  };
  add("--forward", arguments.forward, "Time of F, a stage and microbatch")
      ->excludes(file);
  add("--input-grad", arguments.input_grad, "Time of I")->excludes(file);
  add("--weight-grad", arguments.weight_grad, "Time of W")->excludes(file);
  add("--backward",
      arguments.backward,
      "Time of B; if not given, that of I and W together")
      ->excludes(file);
  add("--latency", arguments.latency, "Time that every message takes");
  word.add_option("--bandwidth", arguments.bandwidth, "Bytes per unit of time, or inf")
      ->type_name("X")
      ->capture_default_str();
  add("--message-bytes", arguments.message_bytes, "Size of a message");
  add("--activation-bytes", arguments.activation_bytes, "What F keeps for its backward")
      ->excludes(file);
  add("--overlap-gain",
      arguments.overlap_gain,
      "Part of the shorter half that an overlap saves, 0 to 1");
}

void add_show(CLI::App& schedule, ScheduleArguments& arguments) {
  CLI::App* show = schedule.add_subcommand("show", "Print a schedule");
  add_size(*show, arguments);
  show->add_flag(
      "--lowered",
      arguments.lowered,
      "As ranks carry it out: with sends, receives and sharding (grid, csv, json), or "
      "with an arrow (svg) or two instants (trace) for each message");
  add_format(*show, arguments, {"grid", "csv", "svg", "trace", "json"});
  show->add_option("-o,--output", arguments.output, "Write to this file")
      ->check(not_empty())
      ->type_name("FILE");
  show->footer(
      "Examples:\n"
      "  trireme schedule show 1F1B --ranks 4 --microbatches 8\n"
      "  trireme schedule show ZBVZeroBubble --ranks 4 --microbatches 8 --format svg "
      "-o zbv.svg");
}

void add_check(CLI::App& schedule, ScheduleArguments& arguments) {
  CLI::App* check = schedule.add_subcommand(
      "check", "Tell whether a CSV file is a complete schedule that cannot lock up");
  check->add_option("FILE", arguments.what, "The file")
      ->type_name("FILE.csv")
      ->required();
  check->add_flag(
      "--lowered", arguments.lowered, "Require that it has sends and receives already");
  check
      ->add_option(
          "--buffers",
          arguments.buffers,
          "Messages that a channel holds: a number, unbounded or rendezvous")
      ->type_name("N")
      ->capture_default_str();
  check->footer("Example: trireme schedule check mine.csv --buffers rendezvous");
}

}  // namespace

void add_schedule_options(CLI::App& schedule, ScheduleArguments& arguments) {
  require_word(schedule);
  CLI::App* list = schedule.add_subcommand("list", "Name all schedules");
  add_format(*list, arguments, {"text", "json"});
  add_show(schedule, arguments);
  add_check(schedule, arguments);
  CLI::App* simulate =
      schedule.add_subcommand("simulate", "Tell how long a schedule takes, and why");
  add_size(*simulate, arguments);
  add_costs(*simulate, arguments);
  add_format(*simulate, arguments, {"text", "json"});
  simulate->footer(
      "Example: trireme schedule simulate ZB-H1 --ranks 8 --microbatches 32 --latency "
      "0.1");
  CLI::App* plan = schedule.add_subcommand(
      "plan", "Compare schedules, stages per rank and numbers of microbatches");
  add_count(*plan, "--ranks", "P", arguments.ranks, "Ranks of the pipeline")
      ->required();
  add_count(
      *plan,
      "--microbatches",
      "M",
      arguments.microbatches,
      "Microbatches of a step; if not given, several numbers are compared");
  add_costs(*plan, arguments);
  plan->add_option(
          "--memory-limit", arguments.memory_limit, "Bytes that a rank may use")
      ->check(at_least_zero())
      ->type_name("BYTES");
  add_format(*plan, arguments, {"text", "json"});
  plan->footer("Example: trireme schedule plan --ranks 8 --costs measured.json");
}

}  // namespace trireme::cli
