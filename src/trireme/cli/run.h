// `trireme run`: starts the ranks of a job on this host, and on others.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "trireme/cli/run_parts.h"

namespace CLI {
class App;
}  // namespace CLI

namespace trireme::cli {

/// What the command line said; texts are read only when the command runs.
struct RunArguments {
  std::string nodes = "1";
  int node_rank = -1;
  std::string endpoint;
  std::string rendezvous = "c10d";
  std::string rendezvous_settings;
  std::string hosts;
  std::string shell;
  bool stdin_variables = false;
  bool standalone = false;
  int max_restarts = 0;
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string run_id;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  double grace_seconds = 10;
  bool prefix = false;
  bool no_pin = false;
  /// The first program, and those behind a ":".
  PartArguments first;
  std::vector<PartArguments> others;
};

/// Adds the options of `run` to its subcommand. torchrun's names work with dashes and
/// with underscores. What the parser gets is what split_command() has left over; it
/// throws InvalidArgument where a program is missing.
void add_run_options(CLI::App& run, RunArguments& arguments);

/// Takes the variables from stdin if it was told so, runs the job and gives the exit
/// code: that of the first rank that failed, 128 + n after signal n, 2 for what cannot
/// be started as asked.
int run_job(const RunArguments& arguments, std::ostream& err);

}  // namespace trireme::cli
