#include "trireme/bench/pipe_worker.h"

#include <sstream>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/world.h"

namespace trireme::bench {
namespace {

const PipeModel kSmall{
    .layer = "linear", .layers = 4, .width = 8, .sequence = 2, .microbatches = 4};

TEST(BenchPipeWorker, JobsAreLines) {
  const PipeJob job{
      .op = "profile",
      .model = kSmall,
      .schedule = "1F1B",
      .warm_up = 3,
      .repetitions = 7};
  const PipeJob same = parse_pipe_job(to_line(job));
  EXPECT_EQ(to_line(same), to_line(job));
  EXPECT_EQ(same.schedule, "1F1B");
  EXPECT_EQ(same.model.width, 8);
  EXPECT_THROW(parse_pipe_job("{}"), InvalidArgument);
  EXPECT_THROW(parse_pipe_job("rubbish"), InvalidArgument);
}

TEST(BenchPipeWorkerRanks, TimesStepsOfSchedulesAndOfOneProcess) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    PipeWorker worker(world);
    for (const char* schedule : {"1F1B", "DualPipeV", "", "1F1B"}) {
      const auto times =
          worker.work({.model = kSmall, .schedule = schedule, .repetitions = 3});
      ASSERT_EQ(times.size(), 3U) << schedule;
      for (const double time : times)
        EXPECT_GT(time, 0);
    }
  });
}

TEST(BenchPipeWorkerRanks, ProfilesEveryStage) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    PipeWorker worker(world);
    const auto costs = worker.work(
        {.op = "profile",
         .model = kSmall,
         .schedule = "Interleaved1F1B",
         .repetitions = 2});
    ASSERT_EQ(costs.size(), 4 * kCostsPerStage + 1);
    for (size_t i = 0; i + 1 < costs.size(); ++i)
      EXPECT_GT(costs[i], 0) << i;
  });
}

TEST(BenchPipeWorkerRanks, TimesNotesOnTheFirstRank) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    PipeWorker worker(world);
    const auto times = worker.work(
        {.op = "timing", .model = kSmall, .schedule = "1F1B", .repetitions = 2});
    ASSERT_EQ(times.size(), 2U);
    EXPECT_EQ(times[0] > 0, world.rank() == 0);
  });
}

// An answer has times of both.
TEST(BenchPipeWorkerRanks, TimesTwoThingsInTurnOnTheFirstRank) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    PipeWorker worker(world);
    for (const char* op : {"graph", "split_fused", "split_engine", "overlap"}) {
      PipeJob job{.op = op, .model = kSmall, .repetitions = 2};
      if (job.op == "graph")
        job.model.layer = "views";
      const auto times = worker.work(job);
      ASSERT_EQ(times.size(), 4U);
      for (const double time : times)
        EXPECT_EQ(time > 0, world.rank() == 0) << op;
    }
  });
}

}  // namespace
}  // namespace trireme::bench
