// Every kind of flaw is found, and marked in the table.
#include "trireme/sched/validate.h"

#include "helpers.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/simulate.h"

namespace trireme::sched {
namespace {

std::string flaw_of(const Schedule& schedule) {
  const auto flaw = find_flaw(schedule);
  return flaw ? flaw->what : "";
}

std::string flaw_in(const std::vector<std::string>& rows) {
  return flaw_of(from_rows(rows));
}

TEST(Validate, TakesBothWaysOfBackward) {
  EXPECT_EQ(flaw_in({"0F0,0F1,0B0,0B1"}), "");
  EXPECT_EQ(flaw_in({"0F0,0F1,0I0,0B1,0W0"}), "");
  EXPECT_EQ(flaw_in({"0F0,0F1"}), "");
}

TEST(Validate, FindsWhatIsMissingOrTwice) {
  EXPECT_EQ(flaw_in({"0F0,0F2,0B0,0B2"}), "0F1 is missing");
  EXPECT_EQ(flaw_in({"0F0,0F1,0B0"}), "0B1 is missing");
  EXPECT_EQ(flaw_in({"0F0,0I0"}), "0W0 is missing");
  EXPECT_EQ(flaw_in({"0F0,0F0,0B0"}), "it is there twice");
  EXPECT_EQ(flaw_in({"0F0,0B0,0B0"}), "it is there twice");
  EXPECT_EQ(flaw_in({"0F0,0I0,0W0,0W0"}), "it is there twice");
  EXPECT_EQ(flaw_in({"0F0,0B0,0I0,0W0"}), "it has a backward already");
}

TEST(Validate, FindsWrongOrders) {
  EXPECT_EQ(flaw_in({"0B0,0F0"}), "its F comes later or not at all");
  EXPECT_EQ(flaw_in({"0F0,0W0,0I0"}), "its I comes later or not at all");
  EXPECT_EQ(flaw_in({"0F0,0W0"}), "its I comes later or not at all");
  EXPECT_EQ(
      flaw_in({"1F0,0F0,1B0,0B0"}),
      "it needs stage 0 of this rank, which comes later or not at all");
  EXPECT_EQ(
      flaw_in({"0F0,1F0,0B0,1B0"}),
      "it needs stage 1 of this rank, which comes later or not at all");
}

TEST(Validate, ABackwardCannotOverlapItsOwnForward) {
  EXPECT_EQ(flaw_in({"(0F0;0B0)OVERLAP_F_B"}), "its B needs its F to have ended");
  EXPECT_EQ(flaw_in({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"}), "");
}

TEST(Validate, ChecksOwnersAndRanges) {
  Schedule schedule = from_rows({"0F0,0B0", "1F0,1B0"});
  schedule.actions[0].push_back(Action(ActionKind::Forward, 1, 0));
  EXPECT_EQ(flaw_of(schedule), "stage 1 belongs to rank 1");
  schedule.actions[0].back() = Action(ActionKind::Forward, 7, 0);
  EXPECT_EQ(flaw_of(schedule), "there is no stage 7");
  schedule.actions[0].back() = Action(ActionKind::Unshard, 100);
  EXPECT_EQ(flaw_of(schedule), "there is no stage 100");
  schedule.actions[0].back() = Action::overlap({0, 0}, {9, 0});
  EXPECT_NE(flaw_of(schedule), "");
  schedule.actions[0].back() = Action(ActionKind::Forward, 0, 1);
  EXPECT_EQ(flaw_of(schedule), "there are only 1 microbatches");
  schedule.actions[0].back() = Action(ActionKind::Forward, 0, -5);
  EXPECT_EQ(flaw_of(schedule), "there are only 1 microbatches");
  schedule.actions[0].back() = Action(ActionKind::SendForward, 0, 0);
  EXPECT_EQ(flaw_of(schedule), "a compute-only schedule has no SEND_F");
}

TEST(Validate, ChecksTheShapeFirst) {
  EXPECT_EQ(flaw_of(Schedule{}), "it has 0 ranks, 0 stages and 0 microbatches");
  Schedule schedule = from_rows({"0F0,0B0", "1F0,1B0"});
  schedule.rank_of_stage[1] = 2;
  EXPECT_EQ(flaw_of(schedule), "stage 1 belongs to rank 2");
  schedule.rank_of_stage[1] = -1;
  schedule.actions[0].clear();
  EXPECT_EQ(
      refusal([&] { validate(schedule); }),
      "[sched] expected a complete schedule in order, got test.csv with a flaw: stage "
      "1 "
      "belongs to rank -1; correct it");
  schedule.rank_of_stage[1] = 1;
  schedule.microbatches = 2000000000;
  EXPECT_TRUE(contains(flaw_of(schedule), "too few"));
  schedule.microbatches = -1;
  EXPECT_TRUE(contains(flaw_of(schedule), "-1 microbatches"));
}

TEST(Validate, ChecksLoweredSchedules) {
  const auto flaw = [](const std::string& first, const std::string& second) {
    return flaw_in({first, second});
  };
  EXPECT_EQ(flaw("0F0,0SEND_F0", "1RECV_F0,1F0"), "");
  EXPECT_EQ(flaw("0F0,0SEND_F0", "1F0,1RECV_F0"), "it needs 1RECV_F0 before it");
  EXPECT_EQ(
      flaw("0SEND_F0,0F0", "1RECV_F0,1F0"),
      "what it sends is computed later or not at all");
  EXPECT_EQ(flaw("0F0", "1RECV_F0,1F0"), "0SEND_F0 is missing");
  EXPECT_EQ(
      flaw("0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0"), "1SEND_B0 is missing");
  EXPECT_EQ(
      flaw("0F0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"),
      "it needs 0RECV_B0 before it");
  EXPECT_EQ(
      flaw("0F0,0SEND_F0", "1RECV_F0,1F0,1SEND_F0"), "there is no such neighbour");
  EXPECT_EQ(flaw_in({"0F0,0SEND_F0,1F0"}), "its neighbour is on this rank");
}

TEST(Validate, ChecksSharding) {
  EXPECT_EQ(flaw_in({"0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD"}), "");
  EXPECT_EQ(flaw_in({"0UNSHARD,0F0,0RESHARD"}), "");
  EXPECT_EQ(
      flaw_in({"0F0,0UNSHARD,0B0,0REDUCE_GRAD,0RESHARD"}),
      "the stage is not unsharded");
  EXPECT_EQ(flaw_in({"0UNSHARD,0UNSHARD,0F0,0B0"}), "the stage is unsharded already");
  EXPECT_EQ(flaw_in({"0F0,0RESHARD,0B0"}), "the stage is not unsharded");
  EXPECT_EQ(flaw_in({"0UNSHARD,0F0,0B0,0REDUCE_GRAD"}), "stage 0 is never resharded");
  EXPECT_EQ(
      flaw_in({"0UNSHARD,0F0,0REDUCE_GRAD,0B0,0RESHARD"}),
      "it comes after 0 of 1 backwards of the stage");
  EXPECT_EQ(flaw_in({"0UNSHARD,0F0,0B0,0RESHARD"}), "0REDUCE_GRAD is missing");
  EXPECT_EQ(flaw_in({"0F0,1F0,1B0,1REDUCE_GRAD,0B0"}), "0REDUCE_GRAD is missing");
}

TEST(Validate, ShowsTheTableWithTheCellMarked) {
  const std::string message = refusal([] { validate(from_rows({"0F0,0F0,0B0"})); });
  EXPECT_EQ(
      message,
      "[sched] expected a complete schedule in order, got test.csv with a flaw at rank "
      "0, "
      "step 1, 0F0: it is there twice; correct it\n"
      "           Rank 0\n"
      "  Step 0:  0F0\n"
      "  Step 1:  >0F0<\n"
      "  Step 2:  0B0\n");
}

TEST(Validate, PlacesAlone) {
  Schedule schedule = from_rows({"0F0,0SEND_F0", "1F0,1RECV_F0"});
  check_places(schedule);
  schedule.actions[1].push_back(Action(ActionKind::SendForward, 0, 0));
  EXPECT_TRUE(contains(
      refusal([&] { check_places(schedule); }),
      "at rank 1, step 2, 0SEND_F0: stage 0 belongs to rank 0"));
}

class Mutated : public ::testing::Test {
 protected:
  std::mt19937 random_{77};
  size_t below(size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random_);
  }
  /// A rank of the schedule with actions, and one of them that is no bubble.
  std::pair<size_t, size_t> place(const Schedule& schedule) {
    for (;;) {
      const size_t rank = below(schedule.actions.size());
      const auto& list = schedule.actions[rank];
      if (list.empty())
        continue;
      const size_t step = below(list.size());
      if (list[step].kind() != ActionKind::Bubble)
        return {rank, step};
    }
  }
};

TEST_F(Mutated, OneActionLessOrTwiceIsAlwaysCaught) {
  int tried = 0;
  for (int round = 0; round < 600; ++round) {
    const NamedSize what = random_size(random_, 5, 3);
    Schedule schedule = what.make();
    // Without its only backward, the smallest schedule is one for evaluation.
    if (schedule.stages() * schedule.microbatches == 1)
      continue;
    if (round % 2 == 0)
      schedule = lower(schedule);
    for (int i = 0; i < 8; ++i) {
      const auto [rank, step] = place(schedule);
      const auto at = static_cast<std::ptrdiff_t>(step);
      SCOPED_TRACE(text(
          what.describe(),
          " ",
          to_string(schedule.actions[rank][step]),
          " lowered ",
          schedule.lowered));
      Schedule less = schedule;
      less.actions[rank].erase(less.actions[rank].begin() + at);
      EXPECT_NE(flaw_of(less), "");
      Schedule more = schedule;
      auto& list = more.actions[rank];
      list.insert(
          list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)),
          schedule.actions[rank][step]);
      EXPECT_NE(flaw_of(more), "");
      ++tried;
    }
  }
  EXPECT_GT(tried, 4000);
}

TEST_F(Mutated, TwoSwappedAreCaughtOrRunToTheEnd) {
  int caught = 0, stuck = 0, ran = 0;
  for (int round = 0; round < 400; ++round) {
    const NamedSize what = random_size(random_, 4, 3);
    const Schedule schedule = what.make();
    for (int i = 0; i < 10; ++i) {
      Schedule swapped = schedule;
      const auto [rank, a] = place(schedule);
      auto& list = swapped.actions[rank];
      // Near ones are legal more often.
      const size_t b =
          std::min(list.size() - 1, a + below(i % 2 == 0 ? 3 : list.size()));
      std::swap(list[a], list[b]);
      if (!flaw_of(swapped).empty()) {
        ++caught;
        continue;
      }
      const std::string refused = refusal([&] { lower(swapped); });
      const std::string waits = refusal([&] { simulate(swapped, {}); });
      EXPECT_EQ(refused.empty(), waits.empty()) << what.describe() << refused << waits;
      ++(waits.empty() ? ran : stuck);
    }
  }
  EXPECT_GT(caught, 100);
  EXPECT_GT(stuck, 10);
  EXPECT_GT(ran, 100);
}

}  // namespace
}  // namespace trireme::sched
