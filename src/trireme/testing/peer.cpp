#include "trireme/testing/peer.h"

#include <cstdlib>

#include "trireme/core/error.h"

namespace trireme::testing {

std::string peer_missing(const std::vector<std::string>& packages) {
  const char* python = std::getenv("TRIREME_PYTHON");
  if (python == nullptr)
    return "TRIREME_PYTHON is not set; run ./trireme test";
  for (const std::string& package : packages) {
    // Finding is quicker than importing by seconds.
    const std::string command = text(
        "\"$TRIREME_PYTHON\" -c 'import importlib.util, sys; "
        "sys.exit(importlib.util.find_spec(\"",
        package,
        "\") is None)'");
    if (std::system(command.c_str()) != 0)
      return text(python, " has no ", package, "; run ./trireme test");
  }
  return {};
}

}  // namespace trireme::testing
