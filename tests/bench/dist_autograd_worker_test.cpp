#include "trireme/bench/dist_autograd_worker.h"

#include "gradient_rows.h"
#include "trireme/core/error.h"
#include "trireme/net/tls.h"

namespace trireme::bench {
namespace {

void expect_times(const std::vector<double>& row) {
  EXPECT_EQ(row.size(), 3u);
  for (const double seconds : row)
    EXPECT_GT(seconds, 0);
}

TEST(BenchGradientWorker, JobsAreLines) {
  const GradientJob job{
      .op = "chain", .wire = "plain", .mode = "fast", .floats = 7, .calls = 4};
  const GradientJob same = parse_gradient_job(to_line(job));
  EXPECT_EQ(to_line(same), to_line(job));
  EXPECT_EQ(same.calls, 4);
  EXPECT_EQ(same.floats, 7);
  EXPECT_EQ(same.mode, "fast");
  EXPECT_THROW(parse_gradient_job("{}"), InvalidArgument);
  EXPECT_THROW(parse_gradient_job("rubbish"), InvalidArgument);
}

TEST(BenchGradientWorkerRanks, OneBeginsTheOthersServe) {
  std::vector<GradientJob> jobs;
  for (const char* mode : {"exact", "static", "fast"})
    for (const char* op : {"multiply", "chain", "fan_out"})
      jobs.push_back(
          {.op = op, .wire = "plain", .mode = mode, .calls = 2, .repetitions = 3});
  if (net::has_tls())
    jobs.push_back({.repetitions = 3});
  for (const auto& rows : gradient_rows(3, jobs)) {
    expect_times(rows[0]);
    EXPECT_TRUE(rows[1].empty());
    EXPECT_TRUE(rows[2].empty());
  }
}

TEST(BenchGradientWorkerRanks, AllTrainersTimeTheHybridStep) {
  std::vector<GradientJob> jobs;
  for (const char* mode : {"exact", "static", "fast"})
    jobs.push_back({.op = "hybrid", .wire = "plain", .mode = mode, .repetitions = 3});
  for (const auto& rows : gradient_rows(kHybridTrainers + 1, jobs)) {
    for (size_t rank = 0; rank < kHybridTrainers; ++rank)
      expect_times(rows[rank]);
    EXPECT_TRUE(rows[kHybridTrainers].empty());
  }
}

// A chain that is longer than the world ends at a worker that does not exist.
TEST(BenchGradientWorkerRanks, WhatCannotBeDoneIsNoFigure) {
  EXPECT_THROW(gradient_rows(2, {{.op = "chain", .wire = "plain", .calls = 2}}), Error);
}

TEST(BenchGradientWorkerRanks, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(gradient_rows(1, {{.op = "fly"}}), InvalidArgument);
  EXPECT_THROW(gradient_rows(1, {{.wire = "string"}}), InvalidArgument);
  EXPECT_THROW(gradient_rows(1, {{.mode = "smart"}}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::bench
