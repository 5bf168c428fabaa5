#include "trireme/bench/bench.h"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace trireme::bench {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string errors;
};

Outcome run(const std::string& line) {
  CLI::App app;
  Outcome outcome;
  add_bench(app, outcome.exit_code);
  ::testing::internal::CaptureStderr();
  app.parse(line);
  outcome.errors = ::testing::internal::GetCapturedStderr();
  return outcome;
}

void expect_wrong_usage(const std::string& line, const std::string& part) {
  const Outcome outcome = run(line);
  EXPECT_EQ(outcome.exit_code, 2) << line;
  EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
}

TEST(Bench, SuggestsABenchmarkThatExists) {
  expect_wrong_usage("bench con", "; did you mean comm?\n");
  expect_wrong_usage("bench bogus", "got \"bogus\"; see trireme bench --help\n");
}

TEST(Bench, NeedsABenchmark) {
  CLI::App app;
  int exit_code = 0;
  add_bench(app, exit_code);
  EXPECT_THROW(app.parse("bench"), CLI::ParseError);
  EXPECT_THROW(app.parse("bench comm --rounds 0"), CLI::ParseError);
  EXPECT_THROW(app.parse("bench comm --no-such-option"), CLI::ParseError);
}

TEST(Bench, NoticesAWrongFileBeforeItMeasures) {
  expect_wrong_usage(
      "bench comm --compare /nonexistent/old.json", "/nonexistent/old.json");
  expect_wrong_usage(
      "bench comm --json /nonexistent/new.json", "/nonexistent/new.json");
}

TEST(Bench, NoticesACaseThatDoesNotExist) {
  expect_wrong_usage("bench comm --case fly", "all_reduce 4 B, 2 ranks");
}

TEST(Bench, NoticesAWrongBackend) {
  expect_wrong_usage("bench comm --backend pigeon", "shm, tcp or mpi, got \"pigeon\"");
  expect_wrong_usage("bench net --backend tcp", "--backend with comm alone");
}

TEST(Bench, HelpHasAnExampleAndHidesTheWorkers) {
  CLI::App app;
  int exit_code = 0;
  add_bench(app, exit_code);
  const std::string help = app.get_subcommand("bench")->help();
  EXPECT_NE(help.find("Example: trireme bench comm"), std::string::npos) << help;
  EXPECT_NE(help.find("--compare"), std::string::npos) << help;
  EXPECT_EQ(help.find("--worker"), std::string::npos) << help;
}

}  // namespace
}  // namespace trireme::bench
