// The command line of `trireme-torch`: the commands that need libtorch.
#pragma once

namespace trireme::cli {

/// Runs the command and gives the exit code: 0 done, 1 failed, 2 wrong usage. Data goes
/// to stdout, the rest to stderr. Help speaks of `trireme`, through which people come
/// here.
int run_commands(int argc, const char* const* argv);

}  // namespace trireme::cli
