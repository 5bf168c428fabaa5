#include "trireme/cli/output.h"

#include <iomanip>

#include <CLI/CLI.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::cli {

std::string labelled(const std::string& label, const std::string& value) {
  return text(std::left, std::setw(15), label, " ", value, "\n");
}

std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  std::string command = app->get_name();
  for (const CLI::App* sub : app->get_subcommands())
    command += text(" ", sub->get_name());
  return text("trireme: [cli] ", escaped(error.what()), "; see ", command, " --help\n");
}

}  // namespace trireme::cli
