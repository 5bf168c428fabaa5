// The ranks in time, moved on by hand.
#include "trireme/sched/rank_clocks.h"

#include "helpers.h"

namespace trireme::sched {
namespace {

constexpr ActionKind kForward = ActionKind::Forward;
constexpr ActionKind kBackward = ActionKind::Backward;

/// Carries out an action as soon as it can be, and gives the messages that it sends.
std::vector<Message> carry_out(
    RankClocks& clocks, int rank, const Action& action, double cost) {
  std::vector<Message> sent;
  const double start = std::max(clocks.inputs_there(action), clocks.clock(rank));
  clocks.carry_out(rank, action, start, cost, [&](const Message& message) {
    sent.push_back(message);
  });
  return sent;
}

TEST(RankClocks, MessagesFollowOneAnotherOnALink) {
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"});
  Costs costs;
  costs.link = {.latency = 1, .bandwidth = 2};
  costs.message_bytes = 10;
  RankClocks clocks(schedule, costs);
  EXPECT_EQ(clocks.inputs_there({kForward, 0, 0}), 0);
  EXPECT_EQ(clocks.inputs_there({kForward, 1, 0}), RankClocks::kNotYet);
  const auto first = carry_out(clocks, 0, {kForward, 0, 0}, 3);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].made_by, Action(kForward, 0, 0));
  EXPECT_EQ(first[0].to, 1);
  EXPECT_EQ(first[0].start, 3);
  EXPECT_EQ(first[0].end, 9);
  // Made at 6, but the link is taken until 8.
  const auto second = carry_out(clocks, 0, {kForward, 0, 1}, 3);
  EXPECT_EQ(second[0].start, 8);
  EXPECT_EQ(second[0].end, 14);
  EXPECT_EQ(clocks.clock(0), 6);
  EXPECT_EQ(clocks.latest_clock(), 6);
  EXPECT_EQ(clocks.inputs_there({kForward, 1, 1}), 14);
  EXPECT_EQ(clocks.inputs(true, 1, 1).last, 0);
}

TEST(RankClocks, StagesOfOneRankNeedNoMessages) {
  const Schedule schedule = from_rows({"0F0,1F0,1B0,0B0"});
  Costs costs;
  costs.link.latency = 100;
  RankClocks clocks(schedule, costs);
  EXPECT_TRUE(carry_out(clocks, 0, {kForward, 0, 0}, 1).empty());
  EXPECT_EQ(clocks.inputs_there({kForward, 1, 0}), 1);
}

TEST(RankClocks, AnOverlapWaitsForBothAndGivesBoth) {
  const Schedule schedule =
      from_rows({"0F0,0F1,0B0,0B1", "1F0,(1F1;1B0)OVERLAP_F_B,1B1", "2F0,2B0,2F1,2B1"});
  const Costs costs;
  RankClocks clocks(schedule, costs);
  const Action both = schedule.actions[1][1];
  for (int m = 0; m < 2; ++m)
    carry_out(clocks, 0, {kForward, 0, m}, 1);
  EXPECT_EQ(clocks.inputs_there(both), RankClocks::kNotYet);
  carry_out(clocks, 1, {kForward, 1, 0}, 1);
  carry_out(clocks, 2, {kForward, 2, 0}, 1);
  carry_out(clocks, 2, {kBackward, 2, 0}, 2);
  EXPECT_EQ(clocks.inputs_there(both), 5);
  const auto sent = carry_out(clocks, 1, both, 3);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].to, 2);
  EXPECT_EQ(sent[1].made_by, Action(kBackward, 1, 0));
  EXPECT_EQ(sent[1].to, 0);
}

TEST(RankClocks, TurnsBackToItsMark) {
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"});
  Costs costs;
  costs.link.bandwidth = 1;
  costs.message_bytes = 4;
  RankClocks clocks(schedule, costs);
  carry_out(clocks, 0, {kForward, 0, 0}, 1);
  for (int round = 0; round < 2; ++round) {
    clocks.mark();
    EXPECT_EQ(carry_out(clocks, 0, {kForward, 0, 1}, 1)[0].end, 9);
    carry_out(clocks, 1, {kForward, 1, 0}, 1);
    clocks.turn_back();
    EXPECT_EQ(clocks.clock(0), 1);
    EXPECT_EQ(clocks.clock(1), 0);
    EXPECT_EQ(clocks.inputs_there({kForward, 1, 0}), 5);
    EXPECT_EQ(clocks.inputs_there({kForward, 1, 1}), RankClocks::kNotYet);
    EXPECT_EQ(clocks.inputs(true, 1, 1).last, -1);
  }
}

}  // namespace
}  // namespace trireme::sched
