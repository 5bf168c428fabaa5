// Which schedule wins, and why.
#include "trireme/sched/plan.h"

#include "helpers.h"

namespace trireme::sched {
namespace {

PlanRequest request(int ranks, std::vector<int> microbatches) {
  PlanRequest made{.ranks = ranks, .microbatches = std::move(microbatches)};
  return made;
}

TEST(Plan, TheFastestThatFitsIsFirst) {
  PlanRequest wanted = request(4, {8, 16});
  const auto entries = plan(wanted).entries;
  ASSERT_GT(entries.size(), 20U);
  for (size_t i = 1; i < entries.size(); ++i)
    EXPECT_LE(entries[i - 1].time_per_microbatch(), entries[i].time_per_microbatch());
  EXPECT_EQ(entries[0].microbatches, 16);
  // The interleaved zero bubble with most stages has the smallest bubble of them.
  EXPECT_EQ(entries[0].schedule, "InterleavedZeroBubble");
  EXPECT_EQ(entries[0].stages_per_rank, 4);
}

TEST(Plan, AMemoryCapChangesTheWinner) {
  PlanRequest wanted = request(4, {16});
  wanted.most_stages_per_rank = 2;
  const auto free = plan(wanted).entries;
  const PlanEntry fastest = free[0];
  wanted.memory_limit = fastest.peak_bytes - 0.25;
  const auto capped = plan(wanted).entries;
  EXPECT_TRUE(capped[0].fits);
  EXPECT_LE(capped[0].peak_bytes, wanted.memory_limit);
  EXPECT_GE(capped[0].time_per_microbatch(), fastest.time_per_microbatch());
  // Those that do not fit come last.
  bool fits = true;
  for (const PlanEntry& entry : capped) {
    EXPECT_TRUE(fits || !entry.fits);
    EXPECT_EQ(entry.fits, entry.peak_bytes <= wanted.memory_limit);
    fits = entry.fits;
  }
  EXPECT_FALSE(fits);
  // With two activations a rank only V-Min is left of those with a name, and Auto.
  wanted.memory_limit = 2;
  const auto tight = plan(wanted).entries;
  ASSERT_TRUE(tight[0].fits);
  for (const PlanEntry& entry : tight) {
    if (entry.fits) {
      EXPECT_TRUE(entry.schedule == "V-Min" || entry.schedule == "Auto")
          << entry.schedule;
    }
  }
  wanted.memory_limit = 0.1;
  EXPECT_FALSE(plan(wanted).entries[0].fits);
}

TEST(Plan, CutsLayersIntoStages) {
  PlanRequest wanted = request(2, {4});
  wanted.costs.costs.stages.clear();
  for (const double time : {1.0, 1.0, 1.0, 3.0, 2.0})
    wanted.costs.layers.push_back(
        {.costs = {
             .forward = time,
             .input_grad = time,
             .weight_grad = time,
             .backward = 2 * time}});
  const auto entries = plan(wanted).entries;
  for (const PlanEntry& entry : entries) {
    EXPECT_EQ(entry.layers.size(), size_t(2 * entry.stages_per_rank));
    EXPECT_LE(entry.stages_per_rank, 2);
    if (entry.stages_per_rank == 1) {
      EXPECT_EQ(entry.layers[0], (LayerRange{0, 3}));
    }
  }
}

TEST(Plan, StagesAreTakenForLayers) {
  PlanRequest wanted = request(2, {4});
  wanted.costs.costs.stages = {{}, {}, {}, {}};
  for (const PlanEntry& entry : plan(wanted).entries)
    EXPECT_EQ(entry.layers.back().last, 4);
  EXPECT_EQ(stage_costs(wanted.costs, {0, 1}).stages.size(), 4U);
}

TEST(Plan, LayersAloneBecomeTheCostsOfStages) {
  CostFile file;
  file.costs.stages.clear();
  for (const double time : {1.0, 2.0, 3.0})
    file.layers.push_back({.costs = {.forward = time, .activation_bytes = 10}});
  const Costs costs = stage_costs(file, {0, 1});
  ASSERT_EQ(costs.stages.size(), 2U);
  EXPECT_EQ(costs.stages[0].forward, 3);
  EXPECT_EQ(costs.stages[0].activation_bytes, 20);
  EXPECT_TRUE(contains(
      refusal([&] {
        stage_costs(file, {0, 1, 2, 3});
      }),
      "at least one layer a stage"));
}

TEST(Plan, SaysWhatWasLeftOut) {
  const auto has_auto = [](const Plan& made, int microbatches) {
    return std::any_of(
        made.entries.begin(), made.entries.end(), [&](const PlanEntry& entry) {
          return entry.schedule == "Auto" && entry.microbatches == microbatches;
        });
  };
  PlanRequest wanted = request(2, {4, 1 << 12, 1 << 13});
  wanted.most_stages_per_rank = 1;
  const Plan made = plan(wanted);
  EXPECT_EQ(
      made.left_out,
      "Auto was not tried for 1 of 3 sizes, which would take long: they have more than "
      "8192 stages x microbatches");
  EXPECT_TRUE(has_auto(made, 4));
  EXPECT_TRUE(has_auto(made, 1 << 12));
  EXPECT_FALSE(has_auto(made, 1 << 13));
  wanted.microbatches = {4, 1 << 22};
  EXPECT_TRUE(contains(
      plan(wanted).left_out, "; nothing was for 1, which have more than 4194304"));
  wanted.microbatches = {4};
  EXPECT_EQ(plan(wanted).left_out, "");
}

TEST(Plan, RefusesWhatCannotBePlanned) {
  const auto refused = [](const PlanRequest& wanted) {
    return refusal([&] { plan(wanted); });
  };
  EXPECT_TRUE(contains(refused(request(0, {})), "ranks"));
  EXPECT_TRUE(contains(refused(request(-3, {})), "got -3"));
  EXPECT_TRUE(contains(refused(request(1000000000, {})), "got 1000000000"));
  EXPECT_TRUE(contains(refused(request(2, {0})), "at least one microbatch, got 0"));
  EXPECT_TRUE(contains(refused(request(65536, {})), "too large"));
  PlanRequest wanted = request(4, {});
  wanted.costs.costs.stages = {{}, {}};
  EXPECT_TRUE(contains(refused(wanted), "at least 4 layers for 4 ranks, got 2"));
  wanted = request(2, {4});
  wanted.costs.costs.stages[0].forward = -1;
  EXPECT_TRUE(contains(refused(wanted), "forward of stage 0"));
  wanted = request(2, {4});
  wanted.costs.costs.links = {{.from = 0, .to = 5}};
  EXPECT_TRUE(contains(refused(wanted), "links between ranks 0 to 1"));
  wanted = request(2, {4});
  wanted.memory_limit = -1;
  EXPECT_TRUE(contains(refused(wanted), "memory limit"));
  wanted = request(2, {4});
  wanted.costs.costs.stages.clear();
  EXPECT_TRUE(contains(refused(wanted), "got neither"));
}

TEST(Plan, ExplainsTheWinner) {
  const PlanEntry best{
      .schedule = "ZB-H1",
      .microbatches = 10,
      .makespan = 20,
      .wall_bubble = 5,
      .peak_bytes = 64};
  PlanEntry next = best;
  next.schedule = "1F1B";
  next.makespan = 22;
  EXPECT_EQ(
      explain({best, next}, 100),
      "ZB-H1 with 1 stage a rank and 10 microbatches: 2 a microbatch, 25.0 % bubble, "
      "64 "
      "bytes on the fullest rank; 10.0 % faster than the next best, 1F1B");
  next.fits = false;
  EXPECT_FALSE(contains(explain({best, next}, 100), "next best"));
  PlanEntry least = next;
  least.peak_bytes = 32;
  EXPECT_EQ(
      explain({next, least}, 16),
      "nothing fits into 16 bytes a rank; 1F1B with 10 microbatches needs the least: "
      "32");
  EXPECT_EQ(explain({}, 1), "there is nothing to choose from");
}

}  // namespace
}  // namespace trireme::sched
