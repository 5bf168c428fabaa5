// Auto: never worse than a schedule with a name, and mostly better.
#include "trireme/sched/auto.h"

#include "brute_force.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

/// The best of all schedules with a name, on whatever map of stages.
double best_fixed(const Costs& costs, int P, int V, int M) {
  double best = std::numeric_limits<double>::infinity();
  for (const ScheduleInfo& info : all_schedules()) {
    if (std::string(info.name) == "ForwardOnly")
      continue;
    const ScheduleSize size{.ranks = P, .microbatches = M, .stages_per_rank = V};
    if (!refusal([&] { generate(info.name, size); }).empty())
      continue;
    best =
        std::min(best, simulate(generate(info.name, size), {.costs = costs}).makespan);
  }
  return best;
}

/// Stages of unequal size: around 1, some half as long, some twice.
Costs unequal_costs(std::mt19937& random, int stages) {
  std::uniform_real_distribution<double> size(0.5, 2), part(0.8, 1.2);
  Costs costs;
  costs.stages.clear();
  for (int s = 0; s < stages; ++s) {
    const double scale = size(random);
    StageCosts stage{
        .forward = scale * part(random),
        .input_grad = scale * part(random),
        .weight_grad = scale * part(random)};
    stage.backward = (stage.input_grad + stage.weight_grad) * 0.97;
    costs.stages.push_back(stage);
  }
  return costs;
}

/// Twenty cost files: Auto is never worse than the best fixed one, and better on half.
void expect_better(unsigned first_seed, int V) {
  int better = 0;
  for (unsigned seed = first_seed; seed < first_seed + 20; ++seed) {
    std::mt19937 random(seed);
    const int P = 2 + int(seed) % 5;
    const int M = P * (1 + int(seed) % (V == 1 ? 3 : 2));
    CostFile file;
    file.costs = unequal_costs(random, P * V);
    const AutoResult result =
        make_auto({.ranks = P, .microbatches = M, .stages_per_rank = V}, file);
    SCOPED_TRACE(text("seed ", seed, " P", P, " V", V, " M", M, " ", result.origin));
    const auto flaw = find_flaw(result.schedule);
    ASSERT_FALSE(flaw) << flaw->what;
    EXPECT_EQ(
        simulate(result.schedule, {.costs = file.costs}).makespan, result.makespan);
    const Proof proof = prove(lower(result.schedule), {.messages = 0});
    EXPECT_TRUE(proof.holds) << proof.why;
    const double fixed = best_fixed(file.costs, P, V, M);
    EXPECT_LE(result.makespan, fixed);
    better += result.makespan < fixed * (1 - 1e-9) ? 1 : 0;
  }
  EXPECT_GE(better, 10);
}

TEST(AutoWithOneStageARank, BeatsTheFixedOnesOnUnequalStages) {
  expect_better(0, 1);
}

TEST(AutoWithTwoStagesARank, BeatsTheFixedOnesOnUnequalStages) {
  expect_better(20, 2);
}

/// How much longer than the best of all orders, as a part of it.
double excess(const AutoResult& result, double best) {
  EXPECT_GE(result.makespan, best);
  return result.makespan / best - 1;
}

TEST(Auto, IsNearTheOptimumOfSmallPipelines) {
  std::mt19937 random(17);
  double sum = 0, worst = 0;
  constexpr int kRounds = 42;
  for (int round = 0; round < kRounds; ++round) {
    const int size = round % 7;  // P = 2 with M = 1 to 4, P = 3 with M = 1 to 3
    const int P = size < 4 ? 2 : 3, M = size < 4 ? 1 + size : size - 3;
    const Costs costs = random_costs(random, P);
    OrderProblem problem{.microbatches = M, .costs = costs};
    for (int r = 0; r < P; ++r)
      problem.rank_of_stage.push_back(r);
    const double more = excess(
        make_auto(problem), brute_force(costs, P, M, std::vector<int>(size_t(P), M)));
    sum += more;
    worst = std::max(worst, more);
  }
  EXPECT_LT(sum / kRounds, 0.02);
  EXPECT_LT(worst, 0.15);
}

TEST(Auto, RespectsTheMemoryAndIsStillNearTheBest) {
  std::mt19937 random(18);
  double sum = 0, worst = 0;
  constexpr int kRounds = 30;
  for (int round = 0; round < kRounds; ++round) {
    const int M = 2 + round % 2, cap = 1 + round / 2 % M;
    const Costs costs = random_costs(random, 2);
    const AutoResult result = make_auto(
        {.rank_of_stage = {0, 1},
         .microbatches = M,
         .costs = costs,
         .memory_limit = double(cap)});
    const Simulation simulation = simulate(result.schedule, {.costs = costs});
    for (const double bytes : simulation.peak_bytes)
      EXPECT_LE(bytes, cap);
    const double more = excess(result, brute_force(costs, 2, M, {cap, cap}));
    sum += more;
    worst = std::max(worst, more);
  }
  EXPECT_LT(sum / kRounds, 0.02);
  EXPECT_LT(worst, 0.15);
}

TEST(Auto, SplitsOnlyWhereThatHelps) {
  // One rank has no bubble to fill.
  const AutoResult alone =
      make_auto({.rank_of_stage = {0}, .microbatches = 4, .costs = {}});
  for (const Action& action : alone.schedule.actions[0])
    EXPECT_NE(action.kind(), ActionKind::InputGrad);
  EXPECT_EQ(alone.makespan, 12);
  // Joining any that is left apart would take longer.
  const AutoResult three =
      make_auto({.rank_of_stage = {0, 1, 2}, .microbatches = 6, .costs = {}});
  for (size_t r = 0; r < three.schedule.actions.size(); ++r)
    for (const Action& action : three.schedule.actions[r])
      if (action.kind() == ActionKind::InputGrad) {
        Schedule joined = three.schedule;
        auto& list = joined.actions[r];
        std::erase(
            list, Action(ActionKind::WeightGrad, action.stage(), action.microbatch()));
        std::replace(
            list.begin(),
            list.end(),
            action,
            Action(ActionKind::Backward, action.stage(), action.microbatch()));
        EXPECT_GT(simulate(joined, {}).makespan, three.makespan);
      }
}

TEST(Auto, UnevenStagesHaveASchedule) {
  const AutoResult result = make_auto(
      {.rank_of_stage = map_stages(StageMap::Loop, 2, 5),
       .microbatches = 4,
       .costs = {}});
  EXPECT_FALSE(find_flaw(result.schedule));
  EXPECT_EQ(result.schedule.name, "Auto");
}

TEST(Auto, RefusesWhatCannotBe) {
  EXPECT_TRUE(contains(
      refusal([] {
        make_auto(
            {.rank_of_stage = {0},
             .microbatches = 1,
             .costs = {},
             .memory_limit = 0.5});
      }),
      "at most 0.5 bytes a rank, got none"));
  EXPECT_TRUE(
      contains(refusal([] { make_auto(OrderProblem{}); }), "at least one stage"));
  const auto refused = [](const ScheduleSize& size) {
    return refusal([&] { make_auto(size, CostFile{}); });
  };
  EXPECT_TRUE(
      contains(refused({.ranks = 1000000000, .microbatches = 1}), "1000000000"));
  EXPECT_TRUE(contains(refused({.ranks = 0, .microbatches = 1}), "at least one rank"));
  EXPECT_NE(refused({.ranks = 2, .microbatches = 0}), "");
  EXPECT_NE(refused({.ranks = 2, .microbatches = 2, .stages_per_rank = -1}), "");
  EXPECT_NE(refused({.ranks = 2, .microbatches = 1 << 30}), "");
}

TEST(Auto, CutsLayersForEachMap) {
  CostFile file;
  file.costs.stages.clear();
  for (const double time : {1.0, 2.0, 3.0, 4.0, 5.0, 6.0})
    file.layers.push_back(
        {.costs = {
             .forward = time,
             .input_grad = time,
             .weight_grad = time,
             .backward = 2 * time}});
  const AutoResult result =
      make_auto({.ranks = 2, .microbatches = 4, .stages_per_rank = 2}, file);
  EXPECT_EQ(result.schedule.stages(), 4);
  EXPECT_GE(result.makespan, 4 * 3 * 21 / 2.0);
}

}  // namespace
}  // namespace trireme::sched
