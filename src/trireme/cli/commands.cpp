#include "trireme/cli/commands.h"

#include <exception>
#include <iostream>

#include <CLI/CLI.hpp>

#include "trireme/cli/output.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

int parse_and_run(
    CLI::App& app,
    std::span<const AddCommand> commands,
    int argc,
    const char* const* argv) {
  int exit_code = 0;
  for (const AddCommand add : commands)
    add(app, exit_code);
  try {
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cout.flush();  // what is done comes before what failed
    std::cerr << "trireme: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace

int run_commands(
    std::span<const AddCommand> commands, int argc, const char* const* argv) {
  CLI::App app("The commands of Trireme that need libtorch", "trireme");
  app.set_version_flag(
      "--version", std::string(kVersion), "Print the version and exit");
  app.require_subcommand(1);
  app.failure_message(usage_error);
  const int code = parse_and_run(app, commands, argc, argv);
  if (!std::cout.flush()) {
    std::cerr << "trireme: cannot write to stdout\n";
    return code == 0 ? 1 : code;
  }
  return code;
}

}  // namespace trireme::cli
