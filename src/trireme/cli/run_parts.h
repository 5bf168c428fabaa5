// One or several programs on the command line of `trireme run`, with ":" between them.
#pragma once
#include <string>
#include <vector>

#include "trireme/launch/options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace trireme::cli {

/// What the command line said about one of the programs of a job.
struct PartArguments {
  std::string ranks = "1";
  std::string role{};
  /// The program and its arguments.
  std::vector<std::string> command{};
  /// Whether a -- stood before it, or among it.
  bool dashes = false;
};

/// Adds the options that each part has, and lets a program follow them.
void add_part_options(CLI::App& part, PartArguments& arguments);

/// Takes what comes after the first -- for the command, and gives the words before
/// it, which are for the parser.
std::vector<std::string> split_command(
    const std::vector<std::string>& words, PartArguments& arguments);

/// Puts what the parser has left over in front of the command.
void join_command(const CLI::App& part, PartArguments& arguments);

/// Divides words at each that is ":" alone. Of a word of more colons and nothing else
/// one goes: "::" is how a program is given the argument ":".
std::vector<std::vector<std::string>> split_parts(
    const std::vector<std::string>& words);

/// The words from which split_parts() makes these, in one piece.
std::vector<std::string> one_part(std::vector<std::string> words);

/// Reads what follows a ":". InvalidArgument where there is no program, and for the
/// options of `run`, which are for the whole job.
PartArguments read_part(const std::vector<std::string>& words, const CLI::App& run);

/// A part as the launcher takes it. InvalidArgument for ranks that are no number.
launch::Part to_part(const PartArguments& arguments);

}  // namespace trireme::cli
