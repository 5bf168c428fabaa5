#include "trireme/bench/train_runs.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::bench {
namespace {

TEST(TrainRuns, LeavesTheLayoutToTheProgramUnlessItIsGiven) {
  const auto has = [](const TrainRun& run, const std::string& word) {
    const auto command = run_command("/b/trireme-bench", run, "/f");
    EXPECT_EQ(command[0], "/b/trireme");
    return std::find(command.begin(), command.end(), word) != command.end();
  };
  const std::string pp = "--parallelism.pipeline_parallel_degree";
  const std::string dp = "--parallelism.data_parallel_replicate_degree";
  EXPECT_FALSE(has({}, pp));
  EXPECT_FALSE(has({}, dp));
  const TrainRun given{.degrees = {.pp = 2, .dp = 4}};
  EXPECT_TRUE(has(given, pp));
  EXPECT_TRUE(has(given, dp));
}

TEST(TrainRuns, ReadsWhatCountsOfAMetricsFile) {
  const testing::ScratchFolder folder;
  std::string lines;
  for (int step = 1; step <= 6; ++step)
    lines += text("{\"step\": ", step, ", \"tokens_per_s\": ", 100 * step, "}\n");
  const auto path = folder.write("metrics.jsonl", lines + "{\"step\": 7, \"tok");
  EXPECT_EQ(read_speeds(path), (std::vector<double>{400, 500, 600}));
  EXPECT_TRUE(read_speeds(folder.path() / "none").empty());
}

// 1 x 2 was lucky once, 1 x 4 never looks: it is too far behind to be run again.
TEST(TrainRuns, TheMedianOfTheLeadersDecides) {
  const std::vector<train::Degrees> layouts{
      {.pp = 1, .dp = 1}, {.pp = 1, .dp = 2}, {.pp = 1, .dp = 4}};
  std::map<int, std::vector<double>> script{
      {1, {100, 101, 102}}, {2, {180, 70, 71}}, {4, {60}}};
  std::map<int, size_t> runs;
  const auto speed = [&](const train::Degrees& degrees) {
    return script.at(degrees.dp).at(runs[degrees.dp]++);
  };
  EXPECT_EQ(fastest_layout(layouts, speed).dp, 1);
  EXPECT_EQ(runs, (std::map<int, size_t>{{1, 3}, {2, 3}, {4, 1}}));
  EXPECT_EQ(
      fastest_layout({{.pp = 2, .dp = 1}}, [](const auto&) { return 1.0; }).pp, 2);
}

TEST(TrainRuns, PlausibleLayoutsFitCoresAndBatch) {
  const auto two = plausible_layouts(2, 16);
  EXPECT_EQ(
      two,
      (std::vector<train::Degrees>{
          {.pp = 1, .dp = 1}, {.pp = 1, .dp = 2}, {.pp = 2, .dp = 1}}));
  const auto many = plausible_layouts(16, 16);
  EXPECT_EQ(many.size(), 9U);  // 1, 2, 4, 8, 16, and pipelines 1, 2, 4, 8
  for (const train::Degrees& one : many)
    EXPECT_LE(one.ranks(), 16);
}

TEST(TrainRunsProcs, MeasuresTheProgram) {
  const auto speeds = run_training(
      TRIREME_BENCH_PROGRAM,
      {.batch = 2, .degrees = {.pp = 1, .dp = 1}, .steps = 2, .cores = 1});
  ASSERT_EQ(speeds.size(), 2U);
  EXPECT_GT(speeds[0], 0);
}

TEST(TrainRunsProcs, AProgramThatFailsIsNamedWithItsError) {
  try {
    run_training(
        TRIREME_BENCH_PROGRAM, {.batch = 3, .degrees = {.pp = 1, .dp = 2}, .steps = 2});
    ADD_FAILURE() << "it ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("global_batch_size"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::bench
