#include "trireme/pipe/program.h"

#include <map>
#include <random>

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

/// Runs a program, the ranks in random order, and counts what every channel's messages
/// hold: from the send to the end of the receiver's last backward of that microbatch.
class HeldCount {
 public:
  explicit HeldCount(const Program& program)
      : program_(program),
        at_(program.schedule.actions.size()),
        sent_(program.channels.channels().size()),
        received_(sent_.size()),
        held_(sent_.size()),
        most(sent_.size()) {}

  void run(std::mt19937& random) {
    for (;;) {
      std::vector<size_t> able;
      for (size_t rank = 0; rank < at_.size(); ++rank)
        if (can_go(rank))
          able.push_back(rank);
      if (able.empty())
        return;
      go(able[std::uniform_int_distribution<size_t>(0, able.size() - 1)(random)]);
    }
  }

 private:
  bool can_go(size_t rank) const {
    const auto& list = program_.schedule.actions[rank];
    if (at_[rank] == list.size())
      return false;
    if (!sched::is_receive(list[at_[rank]].kind()))
      return true;
    for (const auto& use : program_.channels.uses(list[at_[rank]])) {
      const auto channel = static_cast<size_t>(use.channel);
      if (sent_[channel] == received_[channel])
        return false;
    }
    return true;
  }

  void go(size_t rank) {
    const sched::Action action = program_.schedule.actions[rank][at_[rank]++];
    for (const auto& use : program_.channels.uses(action)) {
      const auto channel = static_cast<size_t>(use.channel);
      ++(sched::is_send(action.kind()) ? sent_ : received_)[channel];
      if (sched::is_send(action.kind())) {
        // Gradients of a stage that has had its last backward are held no more.
        holders_[{use.other, action.microbatch()}].push_back(channel);
        most[channel] = std::max(most[channel], ++held_[channel]);
      }
    }
    sched::for_each_half(action, [&](const sched::Action& half) {
      if (!sched::gives_weight_grad(half.kind()))
        return;
      for (const size_t channel : holders_[{half.stage(), half.microbatch()}])
        --held_[channel];
      holders_[{half.stage(), half.microbatch()}].clear();
    });
  }

  const Program& program_;
  std::vector<size_t> at_;
  std::vector<int64_t> sent_, received_, held_;
  std::map<std::pair<int, int>, std::vector<size_t>> holders_;

 public:
  std::vector<int64_t> most;
};

TEST(Program, BoundsWhatChannelsHold) {
  std::mt19937 random(7);
  for (const char* name :
       {"GPipe", "1F1B", "ZB-H2", "Interleaved1F1B", "ZBVZeroBubble", "DualPipeV"}) {
    const Program program = make_program(named(name, 3, 9));
    ASSERT_EQ(program.most_held.size(), program.channels.channels().size());
    for (int round = 0; round < 60; ++round) {
      HeldCount count(program);
      count.run(random);
      for (size_t i = 0; i < count.most.size(); ++i)
        ASSERT_LE(count.most[i], program.most_held[i]) << name << " channel " << i;
    }
  }
  // Of 1F1B on two ranks: two live on the first, one on the second.
  const Program small = make_program(named("1F1B", 2, 8));
  for (size_t i = 0; i < small.most_held.size(); ++i)
    EXPECT_EQ(small.most_held[i], small.channels.channels()[i].forward ? 3 : 2);
  // Evaluation may run ahead as far as it goes.
  EXPECT_EQ(make_program(forward_schedule({0, 1}, 5)).most_held[0], 5);
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
