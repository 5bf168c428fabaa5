#include "trireme/bench/protocol.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchProtocol, AJobComesBackAsItWas) {
  const CommJob job{
      .op = "ping_pong",
      .bytes = 4096,
      .dtype = "bfloat16",
      .in_segment = true,
      .warm_up = 3,
      .repetitions = 7};
  const std::string line = to_line(job);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const CommJob back = parse_comm_job(line);
  EXPECT_EQ(back.op, job.op);
  EXPECT_EQ(back.bytes, job.bytes);
  EXPECT_EQ(back.dtype, job.dtype);
  EXPECT_EQ(back.in_segment, job.in_segment);
  EXPECT_EQ(back.warm_up, job.warm_up);
  EXPECT_EQ(back.repetitions, job.repetitions);
}

TEST(BenchProtocol, RefusesWhatIsNoJob) {
  for (const char* wrong : {"", "all_reduce", "{}", "[]", "{\"op\":3}"})
    EXPECT_THROW(parse_comm_job(wrong), InvalidArgument) << wrong;
}

TEST(BenchProtocol, RowsComeBackAsTheyWere) {
  const Rows rows{{1, 2.5}, {3, 4e-7}};
  EXPECT_EQ(parse_answer(answer_line(rows)), rows);
  EXPECT_TRUE(parse_answer(ready_line()).empty());
}

TEST(BenchProtocol, AnErrorCarriesTheWorkersWords) {
  try {
    parse_answer(error_line("line one\nline two \xff"));
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("line one\nline two"), std::string::npos);
  }
}

TEST(BenchProtocol, RefusesWhatIsNoAnswer) {
  for (const char* wrong :
       {"", "hello", "{}", "{\"rows\":[3]}", "{\"rows\":[[\"x\"]]}"})
    EXPECT_THROW(parse_answer(wrong), InvalidArgument) << wrong;
}

TEST(BenchProtocol, TheSlowestRankCounts) {
  EXPECT_EQ(slowest({{1, 5}, {2, 4}}), (std::vector<double>{2, 5}));
  EXPECT_TRUE(slowest({}).empty());
}

TEST(BenchProtocol, SpreadIsFromTheFirstToTheLast) {
  EXPECT_EQ(spread({{10, 20}, {13, 21}, {11, 25}}), (std::vector<double>{3, 5}));
}

TEST(BenchProtocol, RefusesRowsOfDifferentLengths) {
  EXPECT_THROW(slowest({{1, 2}, {1}}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::bench
