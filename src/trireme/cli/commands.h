// The command lines of `trireme-torch` and `trireme-bench`: the commands that need
// libtorch.
#pragma once
#include <span>

namespace CLI {
class App;
}

namespace trireme::cli {

/// Adds a subcommand. When the command line names it, parsing runs it and sets the exit
/// code.
using AddCommand = void (*)(CLI::App& app, int& exit_code);

/// Runs the command and gives the exit code: 0 done, 1 failed, 2 wrong usage. Data goes
/// to stdout, the rest to stderr. Help speaks of `trireme`, through which people come
/// here.
int run_commands(
    std::span<const AddCommand> commands, int argc, const char* const* argv);

}  // namespace trireme::cli
