#include "trireme/bench/comm_worker.h"

#include <sstream>

#include <gtest/gtest.h>

#include "trireme/comm/init.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

// What a world of threads answers to these jobs, a line each.
std::vector<std::string> answers_of(int ranks, const std::vector<CommJob>& jobs) {
  std::stringstream in;
  std::stringstream out;
  for (const CommJob& job : jobs)
    in << to_line(job) << "\n";
  Desk desk(ranks, in, out);
  comm::run_local(
      ranks, [&](const comm::Group& world) { serve_comm(world, desk, world.rank()); });
  std::vector<std::string> lines;
  for (std::string line; std::getline(out, line);)
    lines.push_back(line);
  return lines;
}

void expect_rows(const std::string& line, size_t ranks, size_t repetitions) {
  const Rows rows = parse_answer(line);
  ASSERT_EQ(rows.size(), ranks);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), repetitions);
    for (const double seconds : row)
      EXPECT_GT(seconds, 0);
  }
}

TEST(CommWorkerRanks, MeasuresAllReduce) {
  const auto lines = answers_of(
      3,
      {{.bytes = 4, .repetitions = 2},
       {.bytes = 1 << 20, .in_segment = true, .repetitions = 3},
       {.bytes = 1 << 20, .dtype = "bfloat16", .warm_up = 0, .repetitions = 1},
       {.bytes = 4, .repetitions = 5}});
  ASSERT_EQ(lines.size(), 4u);
  expect_rows(lines[0], 3, 2);
  expect_rows(lines[1], 3, 3);
  expect_rows(lines[2], 3, 1);
  expect_rows(lines[3], 3, 5);
}

TEST(CommWorkerRanks, MeasuresPingPongOfSeveralSizes) {
  std::vector<CommJob> jobs;
  for (const int64_t bytes : {4, 4096, 1 << 16, 4096})
    jobs.push_back({.op = "ping_pong", .bytes = bytes, .repetitions = 4});
  const auto lines = answers_of(2, jobs);
  ASSERT_EQ(lines.size(), jobs.size());
  for (const std::string& line : lines)
    expect_rows(line, 2, 4);
}

TEST(CommWorkerRanks, MeasuresAnAbortAndGoesOn) {
  const CommJob abort{.op = "abort", .warm_up = 0, .repetitions = 2};
  const CommJob reduce{.repetitions = 2};
  const auto lines = answers_of(4, {reduce, abort, reduce});
  ASSERT_EQ(lines.size(), 3u);
  const auto times = spread(parse_answer(lines[1]));
  ASSERT_EQ(times.size(), 2u);
  for (const double seconds : times) {
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 1);
  }
  expect_rows(lines[2], 4, 2);
}

TEST(CommWorkerRanks, AnswersWhatItCannotDoWithAnError) {
  for (const CommJob& wrong :
       {CommJob{.op = "fly"},
        CommJob{.dtype = "int3"},
        CommJob{.op = "ping_pong", .dtype = "bfloat16"}}) {
    std::stringstream in(to_line(wrong) + "\n");
    std::stringstream out;
    Desk desk(2, in, out);
    EXPECT_THROW(
        comm::run_local(
            2,
            [&](const comm::Group& world) { serve_comm(world, desk, world.rank()); }),
        InvalidArgument);
    std::string line;
    ASSERT_TRUE(std::getline(out, line));
    EXPECT_THROW(parse_answer(line), Error);
    EXPECT_FALSE(std::getline(out, line)) << "a second answer: " << line;
  }
}

TEST(CommWorker, SharesOutTheRanksToTwoHosts) {
  for (int rank = 0; rank < 4; ++rank) {
    const LaunchEnv place =
        on_two_hosts({.rank = rank, .world_size = 4, .local_rank = rank});
    EXPECT_EQ(place.rank, rank);
    EXPECT_EQ(place.local_rank, rank % 2);
    EXPECT_EQ(place.local_world_size, 2);
    EXPECT_FALSE(place.one_host());
  }
  EXPECT_EQ(on_two_hosts({.rank = 2, .world_size = 3}).local_world_size, 2);
}

TEST(CommWorkerRanks, MeasuresWhatWaitingCosts) {
  const auto lines = answers_of(2, {{.op = "wait", .warm_up = 0, .repetitions = 1}});
  ASSERT_EQ(lines.size(), 1u);
  for (const auto& row : parse_answer(lines[0])) {
    ASSERT_EQ(row.size(), 1u);
    EXPECT_GT(row[0], 0);
    EXPECT_LT(row[0], std::chrono::duration<double>(kLateRank).count());
  }
}

// As under a launcher: only rank 0 has a desk that is read from and written to.
TEST(CommWorkerRanks, MayBeLedByRankZero) {
  std::stringstream in;
  std::stringstream out;
  for (const CommJob& job :
       {CommJob{.bytes = 4, .repetitions = 3},
        CommJob{.op = "ping_pong", .bytes = 4096, .repetitions = 2}})
    in << to_line(job) << "\n";
  comm::run_local(2, [&](const comm::Group& world) {
    std::stringstream nothing;
    const bool leads = world.rank() == 0;
    Desk desk(world.size(), leads ? in : nothing, leads ? out : nothing);
    serve_led_comm(world, desk);
    EXPECT_TRUE(nothing.str().empty());
  });
  std::string line;
  for (const size_t repetitions : {3u, 2u}) {
    ASSERT_TRUE(std::getline(out, line));
    expect_rows(line, 2, repetitions);
  }
  EXPECT_FALSE(std::getline(out, line)) << "another answer: " << line;
}

TEST(CommWorkerRanks, EndsWithItsInput) {
  EXPECT_TRUE(answers_of(2, {}).empty());
}

}  // namespace
}  // namespace trireme::bench
