// Times, bubbles and memory: against closed forms, and by hand.
#include "trireme/sched/simulate.h"

#include "helpers.h"
#include "trireme/sched/lower.h"

namespace trireme::sched {
namespace {

struct Times {
  int F, I, W;
};
constexpr Times kTimes[] = {
    {1, 1, 1}, {2, 2, 1}, {3, 4, 2}, {5, 3, 3}, {4, 7, 1}, {1, 3, 2}, {2, 1, 3}};

Costs costs_for(const Times& t) {
  Costs costs;
  costs.stages = {
      {.forward = double(t.F),
       .input_grad = double(t.I),
       .weight_grad = double(t.W),
       .backward = double(t.I + t.W)}};
  return costs;
}

/// All (p, m, v) of the grid and all times: `check` gets what came of it.
template <class Check>
void over_grid(
    const std::string& name,
    const std::vector<int>& stages,
    const std::vector<int>& ranks,
    int least_rounds_twice,  // M >= this * P / 2
    const Check& check) {
  int seen = 0;
  for (const int V : stages)
    for (const int P : ranks)
      for (int M = 1; M <= 4 * P + 3; ++M) {
        const ScheduleSize size{.ranks = P, .microbatches = M, .stages_per_rank = V};
        if (2 * M < least_rounds_twice * P ||
            !refusal([&] { generate(name, size); }).empty())
          continue;
        const Schedule schedule = generate(name, size);
        for (const Times& t : kTimes) {
          SCOPED_TRACE(
              text(name, " P", P, " V", V, " M", M, " F", t.F, " I", t.I, " W", t.W));
          check(simulate(schedule, {.costs = costs_for(t)}), P, V, M, t);
          ++seen;
        }
      }
  EXPECT_GT(seen, 100);
}

const std::vector<int> kRanks{1, 2, 3, 4, 5, 8};

TEST(Simulate, ClosedFormsOfTheFusedOnes) {
  for (const char* name : {"GPipe", "1F1B"})
    over_grid(
        name, {1}, kRanks, 2, [&](const auto& s, int P, int, int M, const Times& t) {
          EXPECT_EQ(s.wall_bubble, (P - 1) * (t.F + t.I + t.W));
          EXPECT_EQ(s.ideal, M * (t.F + t.I + t.W));
          for (int r = 0; r < P; ++r)
            EXPECT_EQ(
                s.peak_activations[size_t(r)],
                std::string(name) == "GPipe" ? M : std::min(P - r, M));
        });
}

TEST(Simulate, ClosedFormsOfEager1F1B) {
  over_grid(
      "Eager1F1B",
      {1},
      kRanks,
      2,
      [&](const auto& s, int P, int, int M, const Times& t) {
        EXPECT_EQ(s.wall_bubble, (P - 1) * (t.F + t.I + t.W));
        for (int r = 0; r < P; ++r)
          EXPECT_EQ(s.peak_activations[size_t(r)], std::min(2 * (P - r) - 1, M));
      });
}

TEST(Simulate, ClosedFormsOfTheInterleavedOnes) {
  // Times are of a stage: those of peers.md, which are of a rank, divided by v.
  for (const char* name : {"Interleaved1F1B", "LoopedBFS"})
    over_grid(
        name,
        {1, 2, 3, 4},
        kRanks,
        2,
        [&](const auto& s, int P, int V, int M, const Times& t) {
          EXPECT_EQ(s.wall_bubble, (P - 1) * (t.F + t.I + t.W));
          for (int r = 0; r < P; ++r) {
            const int64_t peak = s.peak_activations[size_t(r)];
            if (std::string(name) == "LoopedBFS") {
              EXPECT_EQ(peak, M * V);
            } else if (M % P == 0 && M >= 2 * P) {
              EXPECT_EQ(peak, 2 * (P - 1 - r) + (V - 1) * P + 1);
            }
          }
        });
}

TEST(Simulate, ClosedFormsOfZbH1) {
  over_grid(
      "ZB-H1", {1}, kRanks, 2, [](const auto& s, int P, int, int, const Times& t) {
        for (const int64_t peak : s.peak_activations)
          EXPECT_EQ(peak, P);
        if (t.W <= std::min(t.F, t.I)) {
          EXPECT_EQ(s.wall_bubble, (P - 1) * (t.F + t.I - t.W));
          EXPECT_EQ(s.span_bubble, s.wall_bubble);
        }
      });
}

TEST(Simulate, ClosedFormsOfZbH2) {
  over_grid(
      "ZB-H2", {1}, kRanks, 4, [](const auto& s, int P, int, int, const Times& t) {
        for (const int64_t peak : s.peak_activations)
          EXPECT_EQ(peak, 2 * P - 1);
        if (t.W <= std::min(t.F, t.I)) {
          EXPECT_EQ(s.span_bubble, (P - 1) * (t.F + t.I - 2 * t.W));
          EXPECT_EQ(s.wall_bubble, (P - 1) * std::max(t.F, t.F + t.I - 2 * t.W));
        }
      });
}

TEST(Simulate, ClosedFormsOfInterleavedZeroBubble) {
  over_grid(
      "InterleavedZeroBubble",
      {1, 2, 3, 4},
      kRanks,
      2,
      [](const auto& s, int P, int V, int M, const Times& t) {
        if (t.W <= std::min(t.F, t.I)) {
          EXPECT_EQ(s.wall_bubble, (P - 1) * (t.F + t.I - t.W));
          EXPECT_EQ(s.span_bubble, s.wall_bubble);
        }
        for (const int64_t peak : s.peak_activations)
          EXPECT_EQ(M % P == 0 ? peak : P * V, P * V);
      });
}

TEST(Simulate, ClosedFormsThereAndBack) {
  const auto equal = [](const Times& t) { return t.F == t.I && t.I == t.W; };
  over_grid(
      "ZBVZeroBubble",
      {2},
      kRanks,
      2,
      [&](const auto& s, int P, int, int M, const Times& t) {
        if (M < 2 * P - 1)
          return;
        for (const int64_t peak : s.peak_activations)
          EXPECT_EQ(peak, 2 * P);
        if (equal(t)) {
          EXPECT_EQ(s.span_bubble, 0);
          EXPECT_EQ(s.wall_bubble, (P - 1) * t.F);
        }
      });
  over_grid(
      "V-Half",
      {2},
      {2, 4, 6, 8},
      2,
      [&](const auto& s, int P, int, int, const Times& t) {
        for (const int64_t peak : s.peak_activations)
          EXPECT_LE(peak, 2 * ((P + 2) / 2));
        if (equal(t)) {
          EXPECT_EQ(s.wall_bubble, (P - 1) * (t.F + t.I + t.W));
        }
      });
  over_grid("V-Min", {2}, kRanks, 4, [&](const auto& s, int P, int, int, const Times&) {
    EXPECT_EQ(
        *std::max_element(s.peak_activations.begin(), s.peak_activations.end()),
        2 * ((P + 4) / 3));
  });
  over_grid(
      "DualPipeV", {2}, kRanks, 4, [&](const auto& s, int P, int, int, const Times& t) {
        for (const int64_t peak : s.peak_activations)
          EXPECT_EQ(peak, 2 * P + 1);
        if (equal(t)) {
          EXPECT_EQ(s.wall_bubble, (P - 1) * 2 * (t.F + t.I + t.W) / 3);
        }
      });
}

TEST(Simulate, MessagesTakeTheirTime) {
  Costs costs;
  costs.link.latency = 10;
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"});
  // F at 1, there at 11; B ends at 14, there at 24; B 26; the last B 28.
  EXPECT_EQ(simulate(schedule, {.costs = costs}).makespan, 29);
  costs.link = {.latency = 0, .bandwidth = 2};
  costs.message_bytes = 10;
  // A message holds the link for 5: the second activation comes at 11, not at 7.
  const auto details = simulate(schedule, {.costs = costs, .details = true});
  EXPECT_EQ(details.timeline[1][0].start, 6);
  EXPECT_EQ(details.timeline[1][2].start, 11);
  costs.links = {{.from = 0, .to = 1, .latency = 1, .bandwidth = 10}};
  EXPECT_EQ(
      simulate(schedule, {.costs = costs, .details = true}).timeline[1][0].start, 3);
}

TEST(Simulate, TellsTheMessagesOfALoweredSchedule) {
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"});
  SimulateOptions options{.costs = {}, .details = true};
  options.costs.link = {.latency = 1, .bandwidth = 2};
  options.costs.message_bytes = 10;
  EXPECT_TRUE(simulate(schedule, options).messages.empty());
  const auto messages = simulate(lower(schedule), options).messages;
  ASSERT_EQ(messages.size(), 4U);
  // The second activation is made at 2, when the link is taken until 6.
  EXPECT_EQ(messages[1].made_by, Action(ActionKind::Forward, 0, 1));
  EXPECT_EQ(messages[1].to, 1);
  EXPECT_EQ(messages[1].start, 6);
  EXPECT_EQ(messages[1].end, 12);
  options.details = false;
  EXPECT_TRUE(simulate(lower(schedule), options).messages.empty());
}

TEST(Simulate, AnOverlapStartsWithBothInputsAndEndsAsOne) {
  const Schedule schedule =
      from_rows({"0F0,0F1,0B0,0B1", "1F0,(1F1;1B0)OVERLAP_F_B,1B1"});
  const auto result = simulate(schedule, {.costs = {}, .details = true});
  const Timed& both = result.timeline[1][1];
  EXPECT_EQ(both.start, 2);
  EXPECT_EQ(both.end, 5);
  EXPECT_EQ(result.timeline[0][2].start, 5);
  Costs gain;
  gain.overlap_gain = 1;
  EXPECT_EQ(simulate(schedule, {.costs = gain, .details = true}).timeline[1][1].end, 4);
}

TEST(Simulate, CountsBytesOfActivationsAndWeights) {
  Costs costs;
  costs.stages = {
      {.activation_bytes = 10, .weight_bytes = 100},
      {.activation_bytes = 1, .weight_bytes = 1000}};
  const auto result =
      simulate(generate("1F1B", {.ranks = 2, .microbatches = 4}), {.costs = costs});
  EXPECT_EQ(result.peak_bytes, (std::vector<double>{120, 1001}));
}

// The largest stage of a rank counts, and not their sum.
TEST(Simulate, EvaluationKeepsNoActivations) {
  Costs costs;
  costs.stages = {
      {.activation_bytes = 10, .weight_bytes = 100},
      {.activation_bytes = 1},
      {.activation_bytes = 30},
      {.activation_bytes = 4, .weight_bytes = 1000}};
  const Schedule schedule =
      generate("ForwardOnly", {.ranks = 2, .microbatches = 6, .stages_per_rank = 2});
  for (const Schedule& program : {schedule, lower(schedule)}) {
    const auto result = simulate(program, {.costs = costs});
    EXPECT_EQ(result.peak_activations, (std::vector<int64_t>{1, 1}));
    EXPECT_EQ(result.peak_bytes, (std::vector<double>{130, 1004}));
  }
}

TEST(Simulate, BusyAndIdleMakeTheMakespan) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const NamedSize what = random_size(random, 5, 3);
    const Schedule schedule = what.make();
    const Costs costs = any_costs(random, schedule.stages(), 9);
    const auto result = simulate(schedule, {.costs = costs, .details = true});
    for (size_t r = 0; r < result.busy.size(); ++r) {
      EXPECT_EQ(result.busy[r] + result.idle[r], result.makespan);
      EXPECT_LE(result.busy[r], result.ideal);
      double free = 0;
      for (const Timed& timed : result.timeline[r]) {
        EXPECT_GE(timed.start, free);
        free = timed.end;
      }
    }
    EXPECT_LE(result.span_bubble, result.makespan);
  }
}

TEST(Simulate, RefusesWhatIsNotValidOrNeverEnds) {
  EXPECT_TRUE(
      contains(refusal([] { simulate(from_rows({"0F0,0F1,0B0"}), {}); }), "missing"));
  // Each waits for the other's microbatch.
  const Schedule cycle = from_rows({"0F0,0F1,0B1,0B0", "1F0,1B0,1F1,1B1"});
  EXPECT_GT(simulate(cycle, {}).makespan, 0);
  const Schedule stuck = from_rows({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"});
  EXPECT_TRUE(
      contains(refusal([&] { simulate(stuck, {}); }), "rank 0 waits for ever at 0B0"));
  EXPECT_TRUE(contains(
      refusal([] {
        Costs costs;
        costs.stages.resize(3);
        simulate(from_rows({"0F0,0B0"}), {.costs = costs});
      }),
      "the costs of 1 stages"));
}

}  // namespace
}  // namespace trireme::sched
