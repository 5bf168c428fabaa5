#include "trireme/bench/pipe.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

Samples rounds(std::initializer_list<std::vector<double>> times) {
  Samples samples;
  for (const auto& round : times)
    samples.add_round(round);
  return samples;
}

PipeTimes made_up() {
  PipeTimes times;
  times.ours[""] = rounds({{200, 210}, {205, 220}});
  times.ours["1F1B"] = rounds({{120, 121}, {118, 130}});
  times.ours["Interleaved1F1B"] = rounds({{110, 111}, {109, 140}});
  times.torch["1F1B"] = rounds({{150, 152}, {151, 153}});
  times.torch["Interleaved1F1B"] = rounds({{170, 171}, {172, 173}});
  times.predicted = {{"1F1B", 117}, {"Interleaved1F1B", 100}};
  times.timing["1F1B"] = rounds({{0.5}, {0.59}});
  times.timing["Interleaved1F1B"] = rounds({{0.5}, {1.2}});
  return times;
}

const Record& find(const std::vector<Record>& records, const std::string& name) {
  for (const Record& record : records)
    if (record.name == name)
      return record;
  throw InvalidArgument(text("no record ", name));
}

TEST(BenchPipe, JudgesBlocks) {
  const auto records = judge_blocks(made_up());
  ASSERT_EQ(records.size(), 4U);
  // The least of ours beside half of the least of one process.
  const Record& half =
      find(records, "blocks, Interleaved1F1B beside half of one process");
  EXPECT_EQ(half.our_value(), 109);
  EXPECT_EQ(half.peer_value(), 100);
  EXPECT_EQ(judge(half), Verdict::Short);
  const Record& torch =
      find(records, "blocks, Interleaved1F1B beside torch's best (1F1B)");
  EXPECT_EQ(judge(torch), Verdict::Ok);
  EXPECT_EQ(judge(find(records, "blocks, 1F1B beside the simulator")), Verdict::Ok);
  EXPECT_EQ(
      judge(find(records, "blocks, Interleaved1F1B beside the simulator")),
      Verdict::Short);
}

TEST(BenchPipe, JudgesLinears) {
  const auto records = judge_linears(made_up());
  ASSERT_EQ(records.size(), 6U);
  EXPECT_EQ(judge(find(records, "linears, 1F1B beside torch's")), Verdict::Short);
  EXPECT_EQ(
      judge(find(records, "linears, 1F1B beside half of one process")), Verdict::Ok);
  // At most 1 % of the quickest step, which took 118 and 109.
  const Record& timing = find(records, "linears, 1F1B: share of timing the actions");
  EXPECT_NEAR(timing.our_value(), 0.5, 1e-9);
  EXPECT_EQ(judge(timing), Verdict::Ok);
  EXPECT_EQ(
      judge(find(records, "linears, Interleaved1F1B: share of timing the actions")),
      Verdict::Short);
  EXPECT_NE(to_table(records).find("0.50 %"), std::string::npos);
}

TEST(BenchPipe, WithoutTorchThatCannotBeTold) {
  PipeTimes times = made_up();
  times.torch = {{"1F1B", {}}, {"Interleaved1F1B", {}}};
  EXPECT_EQ(
      judge(find(judge_blocks(times), "blocks, Interleaved1F1B beside torch's best")),
      Verdict::NoPeer);
  EXPECT_EQ(
      judge(find(judge_linears(times), "linears, 1F1B beside torch's")),
      Verdict::NoPeer);
}

TEST(BenchPipeProcs, MeasuresGraphs) {
  const BenchReport report =
      bench_pipe({.only = "executor", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 5U);
  for (const Record& record : report.records)
    EXPECT_GT(record.ratio().value_or(0), 0) << record.name;
}

TEST(BenchPipeProcs, MeasuresBackwards) {
  const BenchReport report =
      bench_pipe({.only = "backward", .rounds = 1, .program = TRIREME_BENCH_PROGRAM});
  ASSERT_EQ(report.records.size(), 4U);
  for (const Record& record : report.records) {
    EXPECT_EQ(record.bench, "pipe");
    EXPECT_GT(record.ratio().value_or(0), 0) << record.name;
  }
}

}  // namespace
}  // namespace trireme::bench
