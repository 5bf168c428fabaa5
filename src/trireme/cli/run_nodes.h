// What the command line of `trireme run` says about the nodes of a job.
#pragma once
#include "trireme/cli/run.h"
#include "trireme/launch/options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace trireme::cli {

/// Both spellings of torchrun: --log-dir is --log_dir too.
std::string both_spellings(const std::string& name);

/// Adds the options about nodes.
void add_node_options(CLI::App& run, RunArguments& arguments);

/// Puts the nodes, and where they meet, into the options of a job; leaves a job of one
/// node alone. InvalidArgument for what cannot be meant.
void read_nodes(const RunArguments& arguments, launch::Options& options);

}  // namespace trireme::cli
