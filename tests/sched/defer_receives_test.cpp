// Late receives: right before what needs them, and in the order of their channels.
#include "helpers.h"
#include "trireme/sched/channels.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

using Rows = std::vector<std::string>;

TEST(DeferReceives, PutsEachBeforeItsUse) {
  EXPECT_EQ(
      rows_of(lower(
          generate("1F1B", {.ranks = 2, .microbatches = 3}),
          {.sharding = false, .late_receives = true})),
      (Rows{
          "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,"
          "0B2",
          "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,"
          "1SEND_B2"}));
}

/// The receives of a rank from one channel, in order.
std::vector<std::vector<Action>> by_channel(
    const Schedule& schedule, const std::vector<Action>& list) {
  const ChannelMap map(schedule);
  std::vector<std::vector<Action>> receives(map.channels().size());
  for (const Action& action : list)
    if (is_receive(action.kind()))
      for (const auto& use : map.uses(action))
        receives[static_cast<size_t>(use.channel)].push_back(action);
  return receives;
}

TEST(DeferReceives, KeepsTheOrderOfEveryChannel) {
  std::mt19937 random(31);
  for (int round = 0; round < 300; ++round) {
    const NamedSize what = random_size(random, 5, 3);
    SCOPED_TRACE(what.describe());
    const Schedule early = lower(what.make());
    const Schedule late = lower(what.make(), {.late_receives = true});
    const auto flaw = find_flaw(late);
    ASSERT_FALSE(flaw) << flaw->what;
    const Proof proof = prove(late);
    ASSERT_TRUE(proof.holds) << proof.why;
    ASSERT_EQ(late.size(), early.size());
    for (size_t r = 0; r < early.actions.size(); ++r)
      ASSERT_EQ(by_channel(late, late.actions[r]), by_channel(early, early.actions[r]));
    ASSERT_EQ(simulate(late, {}).makespan, simulate(early, {}).makespan);
    // What does not hold without buffers is reported with the size that helps.
    const Proof tight = prove(late, {.messages = 0});
    if (!tight.holds) {
      ASSERT_TRUE(tight.buffers_needed);
      ASSERT_TRUE(prove(late, {.messages = *tight.buffers_needed}).holds);
    }
  }
}

TEST(DeferReceives, IsLinearInTheLength) {
  // All messages of LoopedBFS come long before they are used.
  const Schedule schedule =
      lower(generate("LoopedBFS", {.ranks = 2, .microbatches = 30000}));
  EXPECT_EQ(defer_receives(schedule).size(), schedule.size());
}

}  // namespace
}  // namespace trireme::sched
