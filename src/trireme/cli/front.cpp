#include "trireme/cli/front.h"

#include <algorithm>
#include <array>
#include <ostream>

#include <CLI/CLI.hpp>

#include "trireme/cli/doctor_front.h"
#include "trireme/cli/keys.h"
#include "trireme/cli/output.h"
#include "trireme/cli/run.h"
#include "trireme/cli/run_torch.h"
#include "trireme/cli/schedule.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/nearest.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

struct Command {
  const char* name;
  const char* does;
  const char* example;
  /// The program that carries it out, beside this one; null: this one.
  const char* program = nullptr;
};

// All commands, in the order of the help.
constexpr std::array kCommands = {
    Command{
        .name = "train",
        .does = "Train a language model on this machine",
        .example = "trireme train",
        .program = "trireme-torch"},
    Command{
        .name = "sample",
        .does = "Text from a trained model",
        .example = "trireme sample --model runs/1/checkpoint/step-1000",
        .program = "trireme-torch"},
    Command{
        .name = "run",
        .does = "Start a program as the ranks of a job, on this host or several",
        .example = "trireme run -n 4 -- ./program"},
    Command{
        .name = "schedule",
        .does = "Show, check, simulate and choose pipeline schedules",
        .example = "trireme schedule show 1F1B --ranks 4 --microbatches 8"},
    Command{
        .name = "keys",
        .does = "Make the keys that protect a job's connections",
        .example = "trireme keys job job.key"},
    Command{
        .name = "bench",
        .does = "Measure Trireme beside PyTorch",
        .example = "trireme bench comm --quick",
        .program = "trireme-bench"},
    Command{
        .name = "doctor",
        .does = "Report what this machine, this build and the environment have",
        .example = "trireme doctor"},
};

const Command* find_command(const std::string& name) {
  const auto found =
      std::find_if(kCommands.begin(), kCommands.end(), [&name](const Command& command) {
        return name == command.name;
      });
  return found == kCommands.end() ? nullptr : &*found;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands)
    names.emplace_back(command.name);
  return names;
}

std::string footer() {
  std::string out = "Examples:\n";
  for (const Command& command : kCommands)
    out += text("  ", command.example, "\n");
  out +=
      "  trireme doctor --flight DIR    who diverged, from the records of a stopped "
      "job\n"
      "\n"
      "trireme COMMAND --help explains a command.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 75 stopped but ready to go on, "
      "128+n after signal n.";
  return out;
}

struct DoctorArguments {
  bool json = false;
  std::string flight;
};

void add_doctor_options(CLI::App& sub, DoctorArguments& doctor) {
  sub.footer(
      "Examples:\n"
      "  trireme doctor                 what a bug report should hold\n"
      "  trireme doctor --json          the same as one JSON object\n"
      "  trireme doctor --flight DIR    which rank diverged, and at which call; a "
      "job that\n"
      "                                 stops says in its log where its records are");
  sub.add_flag("--json", doctor.json, "Print one JSON object");
  sub.add_option(
         "--flight",
         doctor.flight,
         "Compare the flight records (rank_N.json) in a folder")
      ->option_text("DIR");
}

// What the commands of this program were told.
struct Arguments {
  DoctorArguments doctor;
  KeysArguments keys;
  RunArguments run;
  ScheduleArguments schedule;
};

void add_commands(CLI::App& app, Arguments& arguments) {
  app.set_version_flag(
      "--version", std::string(kVersion), "Print the version and exit");
  app.footer(footer());
  app.get_formatter()->label("SUBCOMMAND", "COMMAND [ARGUMENTS]");
  app.failure_message(usage_error);
  // Those of other programs are for the list alone: they are handed over before
  // anything is parsed.
  for (const Command& command : kCommands)
    app.add_subcommand(command.name, command.does)
        ->group("Commands")
        ->footer(text("Example:\n  ", command.example));
  add_doctor_options(*app.get_subcommand("doctor"), arguments.doctor);
  add_keys_options(*app.get_subcommand("keys"), arguments.keys);
  add_run_options(*app.get_subcommand("run"), arguments.run);
  add_schedule_options(*app.get_subcommand("schedule"), arguments.schedule);
}

int run_doctor(
    const DoctorArguments& doctor,
    const std::filesystem::path& program,
    bool flight,
    std::ostream& out,
    std::ostream& err) {
  if (!flight)
    return doctor_front({.json = doctor.json, .torch_program = program}, out, err);
  std::vector<std::string> arguments{"doctor", "--flight", doctor.flight};
  if (doctor.json)
    arguments.emplace_back("--json");
  become(program, arguments);
}

int refuse_command(const std::string& word, std::ostream& err) {
  std::string all;
  for (const std::string& name : command_names())
    all += (all.empty() ? "" : ", ") + name;
  err << "trireme: [cli] expected a command (" << all << "), got " << in_quotes(word);
  const std::string meant = did_you_mean(word, command_names());
  err << (meant.empty() ? "; see trireme --help" : meant) << "\n";
  return kWrongUsage;
}

int parse_and_run(
    const std::vector<std::string>& arguments,
    const std::filesystem::path& program,
    std::ostream& out,
    std::ostream& err) {
  CLI::App app(
      "Trireme: pipeline, data and remote parallel training for libtorch", "trireme");
  Arguments all;
  add_commands(app, all);
  try {
    std::vector<std::string> words = arguments;
    if (!words.empty() && words[0] == "run")
      words = split_command(words, all.run.first);
    std::reverse(words.begin(), words.end());  // CLI11 wants the last word first
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : kWrongUsage;
  } catch (const InvalidArgument& error) {
    err << "trireme: " << error.what() << "\n";
    return kWrongUsage;
  }
  if (app.get_subcommands().empty()) {
    err << app.help();
    return kWrongUsage;
  }
  if (app.got_subcommand("run"))
    return run_job(all.run, err);
  const auto word_of = [&app](const char* command) {
    return app.get_subcommand(command)->get_subcommands()[0]->get_name();
  };
  if (app.got_subcommand("keys"))
    return run_keys(word_of("keys"), all.keys, out, err);
  if (app.got_subcommand("schedule"))
    return run_schedule(word_of("schedule"), all.schedule, out, err);
  const bool flight = app.get_subcommand("doctor")->count("--flight") > 0;
  return run_doctor(all.doctor, program, flight, out, err);
}

}  // namespace

int run_front(
    const std::vector<std::string>& arguments,
    std::ostream& out,
    std::ostream& err,
    const FrontOptions& options) try {
  const auto program =
      options.torch_program.empty() ? torch_program() : options.torch_program;
  std::vector<std::string> words = arguments;
  // `help train` is what other programs call it.
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (!words.empty()) {
    const Command* command = find_command(words[0]);
    if (command != nullptr && command->program != nullptr)
      become(program.parent_path() / command->program, words);
    if (command == nullptr && !words[0].starts_with("-"))
      return refuse_command(words[0], err);
  }
  return parse_and_run(words, program, out, err);
} catch (const Error& error) {
  err << "trireme: " << error.what() << "\n";
  return 1;
}

}  // namespace trireme::cli
