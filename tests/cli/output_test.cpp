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
      "trireme: [cli] expected an option of trireme doctor, got --b\\x1b; see trireme "
      "doctor --help\n");
}

TEST(Output, SaysInItsOwnWordsWhatTheParserFound) {
  const auto refused = [](const std::string& words) {
    CLI::App app("", "trireme");
    app.failure_message(usage_error);
    CLI::App* show = app.add_subcommand("schedule")->add_subcommand("show");
    std::string what, format;
    int ranks = 0;
    double grace = 0;
    show->add_option("WHAT", what)->required();
    auto* one = show->add_option("--ranks", ranks)->check(CLI::Range(1, 9));
    show->add_option("--grace", grace)->check(CLI::Range(0.0, 86400.0))->excludes(one);
    show->add_option("--format", format)->check(CLI::IsMember({"grid", "csv"}));
    std::ostringstream out, err;
    try {
      app.parse(words);
      ADD_FAILURE() << words << " was taken";
    } catch (const CLI::ParseError& error) {
      app.exit(error, out, err);
    }
    const std::string start = "trireme: [cli] ";
    const std::string end = "; see trireme schedule show --help\n";
    EXPECT_TRUE(err.str().starts_with(start)) << err.str();
    EXPECT_TRUE(err.str().ends_with(end)) << err.str();
    return err.str().substr(start.size(), err.str().size() - start.size() - end.size());
  };
  EXPECT_EQ(refused("schedule show"), "expected WHAT, got none");
  EXPECT_EQ(
      refused("schedule show x --rank 3"),
      "expected an option of trireme schedule show, got --rank; did you mean --ranks?");
  EXPECT_EQ(
      refused("schedule show x y"),
      "expected no further word for trireme schedule show, got y");
  EXPECT_EQ(
      refused("schedule show x --ranks"), "expected a value after --ranks, got none");
  EXPECT_EQ(
      refused("schedule show x --ranks 1 --grace 2 --ranks 3"),
      "expected --ranks once, got it 2 times");
  EXPECT_EQ(
      refused("schedule show x --ranks 10"),
      "expected --ranks to be from 1 to 9, got 10");
  EXPECT_EQ(
      refused("schedule show x --grace -1"),
      "expected --grace to be from 0 to 86400, got -1");
  EXPECT_EQ(
      refused("schedule show x --format pdf"),
      "expected --format to be one of grid, csv, got pdf");
  EXPECT_EQ(
      refused("schedule show x --ranks 2 --grace 1"),
      "expected --ranks or --grace, got both");
}

}  // namespace
}  // namespace trireme::cli
