#include "trireme/bench/bench.h"

#include <map>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "trireme/bench/ddp.h"
#include "trireme/bench/executor.h"
#include "trireme/bench/launch.h"
#include "trireme/bench/pipe.h"
#include "trireme/bench/schedule.h"
#include "trireme/bench/train.h"

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

/// What is asked of each case: a ratio to its peer, or a limit with its unit.
class Asked {
 public:
  void add(const std::string& name, double goal) { goals[name] = goal; }
  template <class Case>
  void add(const Case& one) {
    if (one.goal)
      goals[one.name] = *one.goal;
    if (one.limit)
      limits[one.name] = *one.limit;
  }
  template <class Case>
  void add(const std::vector<Case>& cases) {
    for (const Case& one : cases)
      add(one);
  }

  std::map<std::string, double> goals;
  std::map<std::string, double> limits;
};

// A goal that is missed is said with its number, not lowered. Those of comm, net and
// rpc stand in the tests of their cases, those of the pipelines below.
TEST(BenchGoals, AskWhatTheDocumentationSays) {
  Asked asked;
  asked.add(launch_records());
  asked.add(schedule_records(false));
  asked.add(backward_records());
  asked.add(ddp_cases());
  for (const GraphCase& one : graph_cases())
    asked.add("executor, " + one.name, one.goal);
  for (const TrainCase& one : train_cases({}))
    asked.add(one.name, one.goal);
  const std::map<std::string, double> goals{
      {"first barrier, 4 ranks", 3.5},
      {"launcher's share, 4 ranks", 10},
      {"make and check, 64 ranks x 4 x 512", 50},
      {"a million actions, 256 ranks; peer: 64", 0.4},
      {"a million actions, 1024 ranks; peer: 64", 0.4},
      {"a million actions, 4096 ranks; peer: 64", 0.4},
      {"Auto on drawn costs, 4 ranks; peer: best named", 1.02},
      {"Auto on drawn costs, 8 ranks; peer: best named", 1.02},
      {"backward, block: I and W beside our own B", 1 / 1.05},
      {"backward, 8 x linear, norm, GELU: I and W beside our own B", 1 / 1.05},
      {"backward, 8 x linear, norm, GELU: I and W beside torch's B", 1 / 0.85},
      {"backward, block: with a forward at once beside in turn", 1.4},
      {"executor, 501 small nodes", 1},
      {"executor, 501 views", 1},
      {"executor, MLP, d 512, batch 256", 1},
      {"executor, 500 leaves", 1},
      {"executor, chain of 5001 nodes", 1},
      {"64 linears of 64, 2 ranks", 8},
      {"64 linears of 64, 8 ranks", 1},
      {"24 linears of 1024, 2 ranks", 2},
      {"10 M GPT, 2-stage pipeline", 1.1},
      {"10 M GPT, 2-rank data parallel", 1.1},
      {"command to the end of the first step, 2 ranks", 3},
      {"greedy sampling, 1.3 M GPT", 1.5},
      {"4 ranks on 2 cores, beside 2 ranks there", 0.7},
      {"8 ranks on 2 cores, beside 2 ranks there", 0.7},
      {"layout chosen for a batch of 16, beside the best", 0.95},
      {"layout chosen for a batch of 64, beside the best", 0.95}};
  const std::map<std::string, double> limits{
      {"start, barrier and end, 64 ranks", 30e6},
      {"launcher's memory, 4 ranks", 14 * 1024},
      {"launcher's memory, 64 ranks", 74 * 1024},
      {"make and check, 4096 ranks x 2 x 512", 30e6},
      {"memory, 4096 ranks x 2 x 512", 4 * 1024 * 1024},
      {"making Auto for drawn costs, 4 ranks", 2e6},
      {"making Auto for drawn costs, 8 ranks", 2e6},
      {"world of one, 200 parameters of linears of 16, one of them", 0.7}};
  EXPECT_EQ(asked.goals, goals);
  EXPECT_EQ(asked.limits, limits);
}

PipeTimes made_up_times() {
  PipeTimes times;
  for (auto* samples :
       {&times.ours[""],
        &times.ours["1F1B"],
        &times.ours["Interleaved1F1B"],
        &times.torch["1F1B"],
        &times.torch["Interleaved1F1B"]})
    samples->add_round({100});
  times.predicted = {{"1F1B", 100}};
  return times;
}

TEST(BenchGoals, OfPipelinesToo) {
  Asked asked;
  asked.add(judge_blocks(made_up_times()));
  asked.add(judge_wide(made_up_times()));
  asked.add(judge_linears(made_up_times()));
  const std::map<std::string, double> goals{
      {"blocks, 1F1B beside half of one process", 1 / 1.07},
      {"blocks, 1F1B beside torch's best (1F1B)", 1.1},
      {"blocks, 1F1B beside the simulator", 1 / 1.06},
      {"wide blocks, 1F1B beside a quarter of one process", 1 / 1.10},
      {"linears, 1F1B beside torch's", 6},
      {"linears, 1F1B beside half of one process", 1 / 1.3},
      {"linears, Interleaved1F1B beside torch's", 25},
      {"linears, Interleaved1F1B beside half of one process", 1 / 1.3}};
  const std::map<std::string, double> limits{
      {"linears, 1F1B: share of timing the actions", 1},
      {"linears, Interleaved1F1B: share of timing the actions", 1}};
  EXPECT_EQ(asked.goals, goals);
  EXPECT_EQ(asked.limits, limits);
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
