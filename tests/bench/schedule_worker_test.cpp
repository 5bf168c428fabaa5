#include "trireme/bench/schedule_worker.h"

#include <sstream>

#include <gtest/gtest.h>

#include "trireme/bench/protocol.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchScheduleWorker, JobsSurviveTheWay) {
  const ScheduleJob job = parse_schedule_job(
      to_line({.ranks = 4, .stages_per_rank = 3, .microbatches = 8}));
  EXPECT_EQ(job.ranks, 4);
  EXPECT_EQ(job.stages_per_rank, 3);
  EXPECT_EQ(job.microbatches, 8);
  EXPECT_THROW(parse_schedule_job("{\"ranks\": 4}"), InvalidArgument);
  EXPECT_THROW(parse_schedule_job("4 3 8"), InvalidArgument);
}

TEST(BenchScheduleWorker, CountsTheLoweredActions) {
  const ScheduleCost cost =
      time_schedule({.ranks = 4, .stages_per_rank = 2, .microbatches = 8});
  // F and B of 8 stages; 7 edges with a send and a receive each way; and an UNSHARD, a
  // RESHARD and a REDUCE_GRAD a stage.
  EXPECT_EQ(cost.actions, 8 * (2 * 8 + 4 * 7) + 3 * 8);
  EXPECT_GT(cost.seconds, 0);
}

TEST(BenchScheduleWorker, AnswersEachLine) {
  std::stringstream in, out;
  in << to_line({.ranks = 2, .stages_per_rank = 2, .microbatches = 4}) << "\n"
     << to_line({.ranks = 1, .stages_per_rank = 1, .microbatches = 1}) << "\n";
  EXPECT_EQ(run_schedule_worker(in, out), 0);
  std::string line;
  std::getline(out, line);
  EXPECT_EQ(line, ready_line());
  for (int answers = 0; answers < 2; ++answers) {
    ASSERT_TRUE(std::getline(out, line));
    const Rows rows = parse_answer(line);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].size(), 2U);
  }
  EXPECT_FALSE(std::getline(out, line));
}

TEST(BenchScheduleWorker, SaysWhatIsWrongWithAJob) {
  std::stringstream in("{\"ranks\": 0, \"stages_per_rank\": 1, \"microbatches\": 1}\n");
  std::stringstream out;
  EXPECT_EQ(run_schedule_worker(in, out), 1);
  std::string line;
  std::getline(out, line);  // it is ready
  std::getline(out, line);
  try {
    parse_answer(line);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("number of ranks"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::bench
