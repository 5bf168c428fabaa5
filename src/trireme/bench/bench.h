// `trireme bench WHAT`: figures beside PyTorch.
#pragma once

namespace CLI {
class App;
}

namespace trireme::bench {

/// Adds the subcommand. When the command line names it, parsing runs it and sets the
/// exit code: 0 done, 1 short of a goal (--check) or failed, 2 wrong usage.
void add_bench(CLI::App& app, int& exit_code);

}  // namespace trireme::bench
