#include "trireme/testing/peer.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

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

std::string run_peer(const std::vector<std::string>& script_and_words) {
  std::string command = "\"$TRIREME_PYTHON\" -B";
  for (const std::string& word : script_and_words)
    command += text(" '", word, "'");
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer{};
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe) != nullptr)
    output += buffer.data();
  EXPECT_EQ(pipe == nullptr ? -1 : ::pclose(pipe), 0) << command;
  return output;
}

}  // namespace trireme::testing
