// How all programs speak: facts in two columns, and mistakes on the command line.
#pragma once
#include <string>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace trireme::cli {

/// The exit code of a mistake on the command line.
inline constexpr int kWrongUsage = 2;

/// A line of a report: the label in a column of its own, then the value.
std::string labelled(const std::string& label, const std::string& value);

/// What the parser has against the command line, and where help is; for
/// CLI::App::failure_message.
std::string usage_error(const CLI::App* app, const CLI::Error& error);

/// Demands one of the subcommands of `app`, with an error that names them all, and the
/// nearest where one was misspelt.
void require_word(CLI::App& app);

}  // namespace trireme::cli
