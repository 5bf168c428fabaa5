#include "trireme/pipe/program.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/validate.h"

namespace trireme::pipe {
namespace {

sched::Schedule named(const char* name, int ranks, int microbatches) {
  return sched::generate(name, {.ranks = ranks, .microbatches = microbatches});
}

TEST(Program, IsLowered) {
  const Program program = make_program(named("1F1B", 2, 8));
  EXPECT_TRUE(program.schedule.lowered);
  EXPECT_TRUE(program.trains);
  EXPECT_EQ(program.channels.channels().size(), 2U);
}

// A channel has room for so many. Up to that no order of sends can lock up; beyond it
// the proof counts with senders that wait.
TEST(Program, IsProvedWithTheRoomThatChannelsHave) {
  const int most = kChannelMessages;
  EXPECT_NO_THROW(make_program(named("GPipe", 2, most)));
  // Rank 0 sends all microbatches to rank 1 before it takes back any.
  const auto all_before_any = [](int microbatches) {
    sched::Schedule schedule{
        .name = "all before any",
        .microbatches = microbatches,
        .rank_of_stage = {0, 1, 0},
        .actions = std::vector<std::vector<sched::Action>>(2)};
    for (int m = 0; m < microbatches; ++m)
      schedule.actions[0].emplace_back(sched::ActionKind::Forward, 0, m);
    for (int m = 0; m < microbatches; ++m) {
      schedule.actions[0].emplace_back(sched::ActionKind::Forward, 2, m);
      schedule.actions[1].emplace_back(sched::ActionKind::Forward, 1, m);
    }
    return schedule;
  };
  // One channel there and one back hold this, and no more.
  EXPECT_NO_THROW(make_program(all_before_any(2 * most)));
  try {
    make_program(all_before_any(3 * most));
    FAIL() << "both channels are full, and both ranks wait to send";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(
        std::string(error.what()).find("with buffers of 4096 messages rank 0 waits"),
        std::string::npos)
        << error.what();
  }
}

TEST(Program, TakesSchedulesThatAreLoweredAlready) {
  const sched::Schedule lowered = sched::lower(named("ZBVZeroBubble", 2, 4));
  const Program program = make_program(lowered);
  EXPECT_TRUE(program.schedule.lowered);
  EXPECT_EQ(program.schedule.stages(), 4);
}

TEST(Program, FindsTheLastBackwardOfEachStage) {
  const Program program = make_program(named("DualPipeV", 2, 4));
  for (int stage = 0; stage < 4; ++stage) {
    const auto& list =
        program.schedule.actions[static_cast<size_t>(program.schedule.owner(stage))];
    const int last = program.last_backward[static_cast<size_t>(stage)];
    int found = -1;
    for (size_t i = 0; i < list.size(); ++i)
      sched::for_each_half(list[i], [&](const sched::Action& half) {
        if (half.stage() == stage && sched::gives_weight_grad(half.kind()))
          found = static_cast<int>(i);
      });
    EXPECT_EQ(last, found);
  }
}

TEST(Program, RefusesWhatIsNoSchedule) {
  sched::Schedule broken = named("1F1B", 2, 4);
  broken.actions[0].pop_back();
  EXPECT_THROW(make_program(broken), InvalidArgument);
}

TEST(Program, RefusesRanksThatWaitForOneAnother) {
  // Each backward stands before the forward that it needs of the other rank.
  const sched::Schedule cycle =
      sched::parse_csv("0F0,0F1,0B1,0B0\n1F0,1B0,1F1,1B1\n", "cycle");
  EXPECT_NO_THROW(make_program(cycle));
  const sched::Schedule stuck =
      sched::parse_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "stuck");
  EXPECT_THROW(make_program(stuck), InvalidArgument);
}

TEST(Program, ForwardScheduleIsValidForAnyMap) {
  for (const std::vector<int>& owners : std::vector<std::vector<int>>{
           {0}, {0, 1}, {0, 1, 1, 0}, {0, 1, 0, 1}, {0, 0, 1, 1, 0}})
    for (const int microbatches : {1, 2, 5}) {
      const sched::Schedule schedule = forward_schedule(owners, microbatches);
      EXPECT_NO_THROW(sched::validate(schedule));
      const Program program = make_program(schedule);
      EXPECT_FALSE(program.trains);
    }
}

}  // namespace
}  // namespace trireme::pipe
