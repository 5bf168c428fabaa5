#include "trireme/bench/record.h"

#include <gtest/gtest.h>

namespace trireme::bench {
namespace {

Record make_record(std::vector<double> ours, std::vector<double> peer) {
  Record record{.bench = "comm", .name = "case"};
  record.ours.rounds = std::move(ours);
  record.peer.rounds = std::move(peer);
  return record;
}

TEST(Quartiles, InterpolateBetweenNeighbours) {
  const Quartiles four = quartiles({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(four.low, 1.75);
  EXPECT_DOUBLE_EQ(four.median, 2.5);
  EXPECT_DOUBLE_EQ(four.high, 3.25);
  EXPECT_DOUBLE_EQ(quartiles({5, 1, 3}).median, 3);
}

TEST(Quartiles, OfOneValueAreThatValue) {
  const Quartiles one = quartiles({7});
  EXPECT_DOUBLE_EQ(one.low, 7);
  EXPECT_DOUBLE_EQ(one.median, 7);
  EXPECT_DOUBLE_EQ(one.high, 7);
}

TEST(Record, MoreTokensAreBetter) {
  Record record = make_record({30}, {10});
  record.unit = "tokens/s";
  record.goal = 2;
  EXPECT_DOUBLE_EQ(*record.ratio(), 3);
  EXPECT_EQ(judge(record), Verdict::Ok);
  EXPECT_NE(to_table({record}).find("30.0 tokens/s"), std::string::npos);
  Record slower = record;
  slower.ours.rounds = {20};
  EXPECT_EQ(regressions({record}, {slower}).size(), 1U);
  EXPECT_TRUE(regressions({slower}, {record}).empty());
}

TEST(Record, ShowsUnitsThatItDoesNotKnowAsTheyAre) {
  Record record = make_record({30}, {});
  record.unit = "calls";
  record.limit = 2000;
  const std::string table = to_table({record});
  EXPECT_NE(table.find("30.0 calls"), std::string::npos) << table;
  EXPECT_NE(table.find("<= 2000 calls"), std::string::npos) << table;
}

TEST(Record, ThatWasLeftOutIsShortAndSaysWhy) {
  Record record = make_record({}, {});
  record.left_out = "there is no ip in PATH; install iproute2";
  EXPECT_EQ(judge(record), Verdict::Short);
  EXPECT_NE(to_table({record}).find("SHORT (left out)"), std::string::npos);
  ASSERT_EQ(shortfalls({record}).size(), 1U);
  EXPECT_NE(shortfalls({record})[0].find("there is no ip in PATH"), std::string::npos);
}

TEST(Quartiles, OfNothingAreZero) {
  EXPECT_DOUBLE_EQ(quartiles({}).median, 0);
}

TEST(Samples, ARoundIsOneDataPoint) {
  Samples samples;
  samples.add_round({1, 100, 2});
  samples.add_round({});
  samples.add_round({3});
  EXPECT_EQ(samples.rounds, (std::vector<double>{2, 3}));
  EXPECT_EQ(samples.raw, (std::vector<double>{1, 100, 2, 3}));
}

TEST(Samples, AreThinnedEvenly) {
  Samples samples;
  std::vector<double> times(1000);
  for (size_t i = 0; i < times.size(); ++i)
    times[i] = static_cast<double>(i);
  samples.add_round(times);
  samples.finish();
  ASSERT_EQ(samples.raw.size(), Samples::kMostRaw);
  EXPECT_DOUBLE_EQ(samples.raw.front(), 0);
  EXPECT_DOUBLE_EQ(samples.raw[1], 5);
  EXPECT_DOUBLE_EQ(samples.raw.back(), 995);
}

TEST(Record, RatioIsHowManyTimesAsFastWeAre) {
  EXPECT_DOUBLE_EQ(*make_record({2, 2, 2}, {30, 20, 10}).ratio(), 10);
  EXPECT_FALSE(make_record({2}, {}).ratio());
  EXPECT_FALSE(make_record({0}, {1}).ratio());
}

TEST(Judge, ComparesTheRatioWithTheGoal) {
  Record record = make_record({2}, {30});
  record.goal = 15;
  EXPECT_EQ(judge(record), Verdict::Ok);
  record.goal = 15.1;
  EXPECT_EQ(judge(record), Verdict::Short);
}

TEST(Judge, HoldsTheSlowestRoundToTheLimit) {
  Record record = make_record({1, 1, 1, 9}, {});
  record.limit = 10;
  EXPECT_EQ(judge(record), Verdict::Ok);
  EXPECT_DOUBLE_EQ(record.our_value(), 9);
  record.limit = 8;
  EXPECT_EQ(judge(record), Verdict::Short);
}

TEST(Judge, CannotTellWithoutThePeer) {
  Record record = make_record({1}, {});
  record.goal = 15;
  EXPECT_EQ(judge(record), Verdict::NoPeer);
}

TEST(Judge, IsShortWithoutOurOwnFigure) {
  EXPECT_EQ(judge(make_record({}, {1})), Verdict::Short);
}

TEST(Shortfalls, NameTheCaseTheGoalAndTheFigure) {
  Record fast = make_record({1}, {100});
  fast.goal = 15;
  Record slow = make_record({10}, {100});
  slow.name = "slow";
  slow.goal = 15;
  Record late = make_record({200}, {});
  late.name = "late";
  late.limit = 100;
  Record alone = make_record({1}, {});
  alone.name = "alone";
  alone.goal = 2;
  const std::vector<std::string> wanted{
      "slow: expected 15.0 x, got 10.0 x",
      "late: expected at most 100 us, got 200 us",
      "alone: expected a peer to compare with, got none"};
  EXPECT_EQ(shortfalls({fast, slow, late, alone}), wanted);
}

TEST(Regressions, AreThoseBeyondTheSpread) {
  const auto now = {make_record({20, 21, 22}, {})};
  EXPECT_EQ(regressions({make_record({10, 11, 12}, {})}, now).size(), 1u);
  // The middle halves overlap.
  EXPECT_TRUE(regressions({make_record({10, 11, 40, 50}, {})}, now).empty());
  EXPECT_TRUE(regressions({make_record({30, 31, 32}, {})}, now).empty());
}

TEST(Regressions, AreNotForLessThanATenth) {
  EXPECT_TRUE(
      regressions(
          {make_record({100, 100, 100}, {})}, {make_record({109, 109, 109}, {})})
          .empty());
}

TEST(Regressions, NeedTheSameCase) {
  Record other = make_record({1}, {});
  other.name = "another";
  EXPECT_TRUE(regressions({other}, {make_record({100}, {})}).empty());
  EXPECT_TRUE(regressions({make_record({}, {})}, {make_record({100}, {})}).empty());
}

TEST(Table, ShowsEveryRecordInItsUnit) {
  Record reduce = make_record({0.4, 0.4, 0.5}, {190, 200, 210});
  reduce.name = "all_reduce 4 B";
  reduce.goal = 15;
  Record wake = make_record({9000, 12000, 15000}, {});
  wake.name = "abort";
  wake.limit = 100e3;
  Record alone = make_record({2e6}, {});
  alone.goal = 2;
  EXPECT_EQ(
      to_table({reduce, wake, alone}),
      "case            ours                       peer              ratio  goal\n"
      "all_reduce 4 B  0.40 us (0.40-0.45)        200 us (195-205)  500 x  15.0 x     "
      "ok\n"
      "abort           15.0 ms worst (10.5-13.5)  -                 -      <= 100 ms  "
      "ok\n"
      "case            2.00 s (2.00-2.00)         -                 -      2.00 x     "
      "no "
      "peer\n");
}

}  // namespace
}  // namespace trireme::bench
