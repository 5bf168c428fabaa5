// Lowering: equal to torch's listings, and its passes one by one.
#include "trireme/sched/lower.h"

#include "helpers.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

using Rows = std::vector<std::string>;

std::vector<Action> list_of(const std::string& row) {
  return from_rows({row}).actions[0];
}

std::string row_of(const std::vector<Action>& list) {
  Schedule schedule;
  schedule.actions = {list};
  return rows_of(schedule)[0];
}

TEST(Lower, InterleavedAsTorchDoes) {
  EXPECT_EQ(
      rows_of(lower(generate(
          "Interleaved1F1B", {.ranks = 2, .microbatches = 2, .stages_per_rank = 2}))),
      (Rows{
          "0UNSHARD,2UNSHARD,0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,"
          "2F1,"
          "2SEND_F1,2RECV_B0,2B0,2SEND_B0,2RECV_B1,2B1,2SEND_B1,2REDUCE_GRAD,2RESHARD,"
          "0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD",
          "1UNSHARD,3UNSHARD,1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,"
          "3RECV_F1,3B0,3SEND_B0,1RECV_B0,3F1,3B1,3SEND_B1,1RECV_B1,3REDUCE_GRAD,"
          "3RESHARD,"
          "1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD"}));
}

TEST(Lower, DualPipeVAsTorchDoes) {
  EXPECT_EQ(
      rows_of(lower(generate("DualPipeV", {.ranks = 2, .microbatches = 4}))),
      (Rows{
          "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,0F2,0SEND_F2,3F0,3RECV_"
          "F1,"
          "3I0,3SEND_B0,3W0,3F1,3RECV_F2,0RECV_B0,(0F3;3B1)OVERLAP_F_B,0SEND_F3,3SEND_"
          "B1,"
          "(3F2;0B0)OVERLAP_F_B,3RECV_F3,0RECV_B1,3B2,3SEND_B2,(3F3;0B1)OVERLAP_F_B,"
          "0RECV_B2,3B3,3SEND_B3,3REDUCE_GRAD,0RECV_B3,3RESHARD,0I2,0W2,0I3,0W3,"
          "0REDUCE_GRAD,0RESHARD",
          "1UNSHARD,2UNSHARD,1RECV_F0,1F0,1RECV_F1,2F0,2SEND_F0,1RECV_F2,1F1,2F1,2SEND_"
          "F1,"
          "2RECV_B0,1F2,2B0,(2F2;1B0)OVERLAP_F_B,2SEND_F2,1SEND_B0,1RECV_F3,2RECV_B1,"
          "(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2SEND_F3,1SEND_B1,2RECV_B2,2B2,"
          "1B2,"
          "1SEND_B2,2RECV_B3,2I3,1I3,1SEND_B3,2W3,2REDUCE_GRAD,2RESHARD,1W3,1REDUCE_"
          "GRAD,"
          "1RESHARD"}));
}

TEST(Lower, MergesNeighbouringGradients) {
  EXPECT_EQ(
      row_of(merge_backwards(list_of("0F0,0F1,0F2,0I0,0I1,0W0,0I2,0W2,0W1"))),
      "0F0,0F1,0F2,0I0,0I1,0W0,0B2,0W1");
  EXPECT_EQ(
      row_of(merge_backwards(list_of("0F0,1F0,1I0,0I0,0W0,1W0"))),
      "0F0,1F0,1I0,0B0,1W0");
}

TEST(Lower, DropsBubbles) {
  EXPECT_EQ(row_of(without_bubbles(list_of(",0F0,,,0B0,"))), "0F0,0B0");
}

TEST(Lower, Sharding) {
  EXPECT_EQ(
      row_of(add_sharding(list_of("0F0,0F1,0B0,0B1"), 3)),
      "0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD");
  EXPECT_EQ(
      row_of(add_sharding(list_of("0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1"), 3)),
      "0UNSHARD,1UNSHARD,0F0,0F1,1F0,1F1,1B0,1B1,1RESHARD,0B0,0B1,0RESHARD");
  // An action that needs two stages has them, whatever the limit.
  EXPECT_EQ(
      row_of(add_sharding(list_of("0F0,1F0,(0F1;1B0)OVERLAP_F_B"), 1)),
      "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,0UNSHARD,(0F1;1B0)OVERLAP_F_B,0RESHARD,"
      "1RESHARD");
}

TEST(Lower, ReduceGrad) {
  EXPECT_EQ(
      row_of(add_reduce_grad(list_of("0F0,0F1,0B0,0B1"), 2)),
      "0F0,0F1,0B0,0B1,0REDUCE_GRAD");
  EXPECT_EQ(
      row_of(add_reduce_grad(list_of("0F0,0F1,1F0,1F1,1B0,1I1,0B0,0B1,1W1"), 2)),
      "0F0,0F1,1F0,1F1,1B0,1I1,0B0,0B1,0REDUCE_GRAD,1W1,1REDUCE_GRAD");
}

TEST(Lower, MostActiveStagesDecideHowOftenAStageIsGathered) {
  const Schedule schedule = generate(
      "Interleaved1F1B", {.ranks = 4, .microbatches = 16, .stages_per_rank = 4});
  for (const auto& [most, times] : {std::pair(3, 4), std::pair(4, 1)}) {
    const Schedule lowered = lower(schedule, {.max_active_stages = most});
    EXPECT_EQ(
        std::count(
            lowered.actions[3].begin(),
            lowered.actions[3].end(),
            Action(ActionKind::Unshard, 15)),
        times);
    EXPECT_FALSE(find_flaw(lowered));
  }
}

TEST(Lower, NeverMoreStagesThanAllowedAreGathered) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const NamedSize what = random_size(random, 4, 3);
    const int most = 1 + round % 4;
    const Schedule lowered = lower(what.make(), {.max_active_stages = most});
    EXPECT_FALSE(find_flaw(lowered)) << what.describe();
    for (const auto& list : lowered.actions) {
      int gathered = 0, peak = 0;
      bool overlaps = false;
      for (const Action& action : list) {
        gathered += action.kind() == ActionKind::Unshard ? 1 : 0;
        gathered -= action.kind() == ActionKind::Reshard ? 1 : 0;
        peak = std::max(peak, gathered);
        overlaps = overlaps || action.kind() == ActionKind::Overlap;
      }
      EXPECT_LE(peak, most + (overlaps ? 1 : 0)) << what.describe();
    }
  }
}

TEST(Lower, WithoutShardingThereAreOnlyMessages) {
  EXPECT_EQ(
      rows_of(lower(
          generate("GPipe", {.ranks = 2, .microbatches = 1}), {.sharding = false})),
      (Rows{"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}));
}

TEST(Lower, RefusesWhatItCannotLower) {
  const Schedule lowered = lower(generate("GPipe", {.ranks = 2, .microbatches = 1}));
  EXPECT_TRUE(contains(refusal([&] { lower(lowered); }), "expected a compute-only"));
  EXPECT_TRUE(contains(
      refusal([] {
        lower(
            generate("GPipe", {.ranks = 2, .microbatches = 1}),
            {.max_active_stages = 0});
      }),
      "max_active_stages of at least 1"));
  EXPECT_TRUE(contains(refusal([] { lower(from_rows({"0F0,0F1,0B0"})); }), "missing"));
}

}  // namespace
}  // namespace trireme::sched
