// The command line of `trireme`, which does what needs no libtorch and hands over the
// rest.
#pragma once
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace trireme::cli {

struct FrontOptions {
  /// The program for commands that need libtorch; empty: the one beside this
  /// executable. trireme-bench is looked for in the same folder.
  std::filesystem::path torch_program;
};

/// Runs the command that `arguments` (without the program's name) ask for and gives the
/// exit code: 0 done, 1 failed, 2 wrong usage. A command of another program replaces
/// this process, with all that follows its word untouched.
///
///     run_front({"doctor", "--json"}, std::cout, std::cerr);
int run_front(
    const std::vector<std::string>& arguments,
    std::ostream& out,
    std::ostream& err,
    const FrontOptions& options = {});

}  // namespace trireme::cli
