#include "trireme/cli/run.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "trireme/cli/output.h"
#include "trireme/cli/run_nodes.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/nearest.h"
#include "trireme/launch/launcher.h"
#include "trireme/launch/processes.h"
#include "trireme/launch/remotes.h"

namespace trireme::cli {
namespace {

// The parser does not know that a program follows.
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: trireme run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
           "       [: [-n N] [--role NAME] [--] PROGRAM [ARGUMENTS]] …\n";
  }
};

// The parser takes an option that does not exist for the program.
void check_not_option(const std::string& word, const CLI::App& run) {
  if (!word.starts_with("-"))
    return;
  std::vector<std::string> names;
  for (const CLI::Option* option : run.get_options())
    for (const std::string& name : option->get_lnames())
      names.push_back(text("--", name));
  const std::string meant = did_you_mean(word, names);
  throw InvalidArgument(text(
      "[cli] expected an option of trireme run or a program, got ",
      in_quotes(word),
      word == "-m"    ? "; Python modules run as: -- python3 -m MODULE"
      : meant.empty() ? "; see trireme run --help"
                      : meant));
}

launch::Options to_options(const RunArguments& arguments) {
  if (!std::isfinite(arguments.grace_seconds))  // no number is outside of any range
    throw InvalidArgument(text(
        "[cli] expected --grace to be a time in seconds, got ",
        arguments.grace_seconds,
        "; give one from 0 to 86400"));
  launch::Options options{
      .max_restarts = arguments.max_restarts,
      .grace = std::chrono::milliseconds(
          static_cast<int64_t>(std::ceil(arguments.grace_seconds * 1000))),
      .pin = !arguments.no_pin,
      .prefix = arguments.prefix,
      .redirects = launch::parse_stream_choice("--redirects", arguments.redirects),
      .tee = launch::parse_stream_choice("--tee", arguments.tee),
      .log_dir = arguments.log_dir,
      .run_id = arguments.run_id,
      .master_addr = arguments.master_addr,
      .master_port = arguments.master_port};
  read_nodes(arguments, options);
  return options;
}

void add_torchrun_options(CLI::App& run, RunArguments& arguments) {
  const std::string group = "As torchrun (with - or _)";
  const auto add = [&](const std::string& names, auto& value, const std::string& does) {
    return run.add_option(names, value, does)->group(group);
  };
  add_part_options(run, arguments.first);
  run.add_flag(
         "--standalone",
         arguments.standalone,
         "One host and a free port, which is the default")
      ->group(group);
  run.add_flag_callback(
         both_spellings("--no-python"),
         [] {},
         "PROGRAM is not a Python script, which is the default")
      ->group(group);
  add(both_spellings("--max-restarts"),
      arguments.max_restarts,
      "How often all ranks are started again after a failure")
      ->check(CLI::Range(0, 1'000'000).description(""))
      ->type_name("N");
  add(both_spellings("--log-dir"),
      arguments.log_dir,
      "The folder for --redirects and --tee")
      ->type_name("DIR");
  add("-r,--redirects",
      arguments.redirects,
      "To files only: 1 stdout, 2 stderr, 3 both, or by rank: 0:3,1:2")
      ->type_name("WHAT");
  add("-t,--tee", arguments.tee, "To files and here, each line with its rank")
      ->type_name("WHAT");
  add(both_spellings("--rdzv-id"),
      arguments.run_id,
      "The id of this job; made up if not given")
      ->type_name("ID");
}

// What stands after the options: one program, or several.
void take_programs(const CLI::App& run, RunArguments& arguments) {
  if (const auto left = run.remaining(); !left.empty())
    check_not_option(left[0], run);
  join_command(run, arguments.first);
  const auto parts = split_parts(arguments.first.command);
  arguments.first.command = parts[0];
  if (parts[0].empty())
    throw InvalidArgument(
        "[cli] expected a program to run, got none; write it after the options: "
        "trireme run -n 2 -- ./program");
  for (size_t i = 1; i < parts.size(); ++i)
    arguments.others.push_back(read_part(parts[i], run));
}

}  // namespace

void add_run_options(CLI::App& run, RunArguments& arguments) {
  run.formatter(std::make_shared<RunFormatter>());
  add_torchrun_options(run, arguments);
  add_node_options(run, arguments);
  run.add_flag(
      "--prefix",
      arguments.prefix,
      "Print each line with its rank (and role) in front");
  run.add_flag("--no-pin", arguments.no_pin, "Do not give each rank cores of its own");
  run.add_option(
         "--grace",
         arguments.grace_seconds,
         "Time between SIGTERM and SIGKILL for ranks that must stop")
      ->check(CLI::Range(0.0, 86400.0).description(""))
      ->type_name("SECONDS")
      ->capture_default_str();
  run.footer(
      "Examples:\n"
      "  trireme run -n 4 -- ./train --epochs 2\n"
      "  trireme run -n auto --max-restarts 3 --prefix -- ./train\n"
      "  trireme run -n 2 --tee 3 --log-dir logs -- ./train    "
      "logs/RUN/attempt_0/RANK/\n"
      "  trireme run --nnodes 2 --node-rank 1 --master-addr node0 -n 4 -- ./train\n"
      "  trireme run --hosts node0,node1 -n 4 -- ./train\n"
      "  trireme run -n 4 -- ./trainer : -n 1 -- ./server     two programs, one "
      "world\n"
      "\n"
      "Behind a \":\" follows another program with its own -n and --role; write \"::\" "
      "for an\n"
      "argument that is a colon.\n"
      "\n"
      "When a rank fails, the others are stopped, and the exit code is that of the "
      "failed one\n"
      "(128+n if signal n ended it).");
  run.callback([&run, &arguments] { take_programs(run, arguments); });
}

int run_job(const RunArguments& arguments, std::ostream& err) {
  if (!arguments.log_dir.empty() && arguments.redirects == "0" && arguments.tee == "0")
    err << "trireme: --log-dir alone writes nothing; add --tee 3 or --redirects 3\n";
  // If the process that keeps the ranks is killed, what they have started comes to us.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  try {
    if (arguments.stdin_variables)
      launch::set_variables_from(STDIN_FILENO);
    std::vector<launch::Part> parts = {to_part(arguments.first)};
    for (const PartArguments& part : arguments.others)
      parts.push_back(to_part(part));
    return launch::spawn(to_options(arguments), parts).exit_code;
  } catch (const InvalidArgument& error) {
    err << "trireme: " << error.what() << "\n";
  } catch (const NotSupported& error) {
    err << "trireme: " << error.what() << "\n";
  } catch (const Error&) {
    launch::end_children(Deadline::after(std::chrono::seconds(5)));
    throw;
  }
  return kWrongUsage;
}

}  // namespace trireme::cli
