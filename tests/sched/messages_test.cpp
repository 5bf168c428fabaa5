// Where sends and receives go, for whatever stages lie where.
#include "helpers.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

using Rows = std::vector<std::string>;

size_t place_of(const Schedule& schedule, int rank, const std::string& word) {
  const auto& list = schedule.actions[static_cast<size_t>(rank)];
  const auto found = std::find(list.begin(), list.end(), parse_action(word));
  EXPECT_NE(found, list.end()) << word;
  return static_cast<size_t>(found - list.begin());
}

void expect_sound(const Schedule& lowered, int buffers) {
  const auto flaw = find_flaw(lowered);
  ASSERT_FALSE(flaw) << flaw->what;
  const Proof proof = prove(lowered, {.messages = buffers});
  EXPECT_TRUE(proof.holds) << proof.why;
  EXPECT_GT(simulate(lowered, {}).makespan, 0);
}

TEST(Messages, AreReceivedWhereTheyAreSent) {
  EXPECT_EQ(
      rows_of(add_messages(from_rows({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}))),
      (Rows{
          "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
          "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"}));
}

TEST(Messages, NoneBetweenStagesOfOneRank) {
  const Schedule lowered =
      add_messages(from_rows({"0F0,3F0,3B0,0B0", "1F0,2F0,2B0,1B0"}));
  EXPECT_EQ(
      rows_of(lowered),
      (Rows{
          "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0",
          "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0"}));
}

TEST(Messages, ForAnyMapOfStages) {
  // Five stages on two ranks, some neighbours on one rank.
  const Schedule schedule = from_rows({"0F0,1F0,4F0,4B0,1B0,0B0", "2F0,3F0,3B0,2B0"});
  expect_sound(lower(schedule), 0);
  // Random owners, in the order of GPipe, which always runs.
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    const int stages = 1 + round % 9, M = 1 + round % 4;
    Schedule any{.name = "any", .microbatches = M};
    int ranks = 1;
    for (int s = 0; s < stages; ++s) {
      any.rank_of_stage.push_back(std::uniform_int_distribution(0, ranks)(random));
      ranks = std::max(ranks, any.rank_of_stage.back() + 1);
    }
    any.actions.resize(static_cast<size_t>(ranks));
    for (int s = 0; s < stages; ++s)
      for (int m = 0; m < M; ++m)
        any.actions[static_cast<size_t>(any.owner(s))].emplace_back(
            ActionKind::Forward, s, m);
    for (int s = stages; s-- > 0;)
      for (int m = 0; m < M; ++m)
        any.actions[static_cast<size_t>(any.owner(s))].emplace_back(
            ActionKind::Backward, s, m);
    expect_sound(lower(any), 0);
  }
}

TEST(Messages, ASkipConnectionIsReceivedAfterItsLastSource) {
  Schedule schedule = generate("1F1B", {.ranks = 3, .microbatches = 6});
  schedule.extra_edges = {{0, 2}};
  const Schedule lowered = lower(schedule);
  // One send serves both, and one receive takes both.
  EXPECT_EQ(
      lowered.size(), lower(generate("1F1B", {.ranks = 3, .microbatches = 6})).size());
  EXPECT_LT(place_of(lowered, 2, "2RECV_F0"), place_of(lowered, 2, "2F0"));
  EXPECT_LT(place_of(lowered, 0, "0RECV_B0"), place_of(lowered, 0, "0B0"));
  expect_sound(lowered, Buffers::kUnbounded);
  // What comes early waits for the last: without buffers that locks up, and the proof
  // says how much is enough.
  const Proof proof = prove(lowered, {.messages = 0});
  EXPECT_FALSE(proof.holds);
  ASSERT_TRUE(proof.buffers_needed) << proof.why;
  EXPECT_EQ(*proof.buffers_needed, 1);
  expect_sound(lowered, *proof.buffers_needed);
  Schedule single = generate("GPipe", {.ranks = 3, .microbatches = 1});
  single.extra_edges = {{0, 2}};
  expect_sound(lower(single), 0);
  // The gradient of stage 0 comes from both.
  const auto with = simulate(lowered, {});
  Costs slow;
  slow.links = {{.from = 0, .to = 2, .latency = 100}};
  EXPECT_GE(simulate(lowered, {.costs = slow}).makespan, with.makespan + 90);
}

TEST(Messages, SkipConnectionsOverEverySchedule) {
  std::mt19937 random(15);
  for (int round = 0; round < 150; ++round) {
    const NamedSize what = random_size(random, 4, 3);
    Schedule schedule = what.make();
    if (schedule.stages() < 3)
      continue;
    for (int i = 0; i < 2; ++i) {
      const int from = std::uniform_int_distribution(0, schedule.stages() - 3)(random);
      schedule.extra_edges.push_back(
          {from,
           std::uniform_int_distribution(from + 2, schedule.stages() - 1)(random)});
    }
    SCOPED_TRACE(what.describe());
    expect_sound(lower(schedule), Buffers::kUnbounded);
    expect_sound(lower(schedule, {.late_receives = true}), Buffers::kUnbounded);
  }
}

TEST(Messages, RefusesACycleWithItsRanks) {
  const Schedule stuck = from_rows({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"});
  EXPECT_TRUE(contains(
      refusal([&] { lower(stuck); }),
      "but rank 0 waits at 0B0 for stage 1 of rank 1, rank 1 waits at 1F1 for stage 0 "
      "of "
      "rank 0, and so on in a cycle; no size of buffers helps"));
  // A rank that only waits for those is not part of it.
  const Schedule three =
      from_rows({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0", "2F0,2B0,2F1,2B1"});
  const std::string why = refusal([&] { lower(three); });
  EXPECT_TRUE(contains(why, "rank 1 waits at 1F1")) << why;
  EXPECT_FALSE(contains(why, "rank 2 waits")) << why;
}

// A weight that the first and the last stage share travels from one to the other, and
// its gradient back.
TEST(Messages, TiedWeightsAreAnEdgeFromTheFirstStageToTheLast) {
  for (const char* name : {"1F1B", "Interleaved1F1B", "ZB-H1"}) {
    Schedule schedule = generate(name, {.ranks = 3, .microbatches = 6});
    schedule.extra_edges = {{0, schedule.stages() - 1}};
    expect_sound(lower(schedule), Buffers::kUnbounded);
    EXPECT_GE(
        simulate(schedule, {}).makespan,
        simulate(generate(name, {.ranks = 3, .microbatches = 6}), {}).makespan);
  }
}

}  // namespace
}  // namespace trireme::sched
