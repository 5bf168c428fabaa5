#include "trireme/cli/output.h"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace trireme::cli {
namespace {

TEST(Output, AlignsTheValues) {
  EXPECT_EQ(labelled("GPU", "none"), "GPU             none\n");
  EXPECT_EQ(labelled("", "none"), "                none\n");
}

TEST(Output, NamesTheCommandWhoseHelpIsWanted) {
  CLI::App app("", "trireme");
  app.add_subcommand("doctor");
  app.failure_message(usage_error);
  std::ostringstream out, err;
  try {
    app.parse("doctor --b\x1b");
    FAIL() << "--b was taken";
  } catch (const CLI::ParseError& error) {
    EXPECT_NE(app.exit(error, out, err), 0);
  }
  EXPECT_EQ(
      err.str(),
      "trireme: [cli] The following argument was not expected: --b\\x1b; see trireme "
      "doctor --help\n");
}

}  // namespace
}  // namespace trireme::cli
