// Partial schedules and what can follow.
#include "trireme/sched/search_state.h"

#include "brute_force.h"

namespace trireme::sched {
namespace {

std::string moves_of(const SearchModel& model, const Partial& partial) {
  std::string all;
  for (const Move& move : model.moves(partial))
    all += text(to_string(move.action), "@", move.start, " ");
  return all;
}

TEST(SearchState, BeginsWithTheFirstForward) {
  const SearchProblem problem{.rank_of_stage = {0, 1}, .microbatches = 2, .costs = {}};
  const SearchModel model(problem);
  EXPECT_EQ(model.total_work(), 12U);
  const Partial start = model.start();
  EXPECT_EQ(moves_of(model, start), "0F0@0 ");
  // Two microbatches on one rank, and the way back: 2 * 3, and F, I behind the last F.
  EXPECT_GE(start.bound, 6);
}

TEST(SearchState, OffersBothBackwardsAndLaterTheWeights) {
  const SearchProblem problem{.rank_of_stage = {0}, .microbatches = 1, .costs = {}};
  const SearchModel model(problem);
  Partial partial = model.after(model.start(), model.moves(model.start())[0]);
  EXPECT_EQ(moves_of(model, partial), "0B0@1 0I0@1 ");
  partial = model.after(partial, model.moves(partial)[1]);
  EXPECT_EQ(partial.pending(0), 1);
  EXPECT_EQ(partial.splits, 1);
  EXPECT_EQ(moves_of(model, partial), "0W0@2 ");
  partial = model.after(partial, model.moves(partial)[0]);
  EXPECT_EQ(partial.end(), 3);
  EXPECT_EQ(rows_of(model.schedule_of(partial))[0], "0F0,0I0,0W0");
  EXPECT_TRUE(moves_of(model, partial).empty());
}

TEST(SearchState, TheBoundNeverExceedsWhatComes) {
  std::mt19937 random(12);
  for (int round = 0; round < 200; ++round) {
    SearchProblem problem{
        .rank_of_stage = map_stages(
            round % 2 == 0 ? StageMap::Loop : StageMap::V,
            1 + round % 3,
            2 + 2 * (round % 3)),
        .microbatches = 1 + round % 3,
        .costs = random_costs(random, 2 + 2 * (round % 3))};
    const SearchModel model(problem);
    Partial partial = model.start();
    std::vector<double> bounds;
    for (;;) {
      bounds.push_back(partial.bound);
      const auto moves = model.all_moves(partial);
      if (moves.empty())
        break;
      partial = model.after(
          partial,
          moves[std::uniform_int_distribution<size_t>(0, moves.size() - 1)(random)]);
    }
    for (const double bound : bounds)
      ASSERT_LE(bound, partial.end());
  }
}

TEST(SearchState, RespectsTheCap) {
  SearchProblem problem{.rank_of_stage = {0}, .microbatches = 2, .costs = {}};
  problem.memory_limit = 1;
  const SearchModel model(problem);
  const Partial one = model.after(model.start(), model.moves(model.start())[0]);
  EXPECT_EQ(moves_of(model, one), "0B0@1 0I0@1 ");
}

TEST(SearchState, KnowsWhenItLeavesNothingOut) {
  SearchProblem problem{.rank_of_stage = {0, 1}, .microbatches = 2, .costs = {}};
  EXPECT_TRUE(SearchModel(problem).complete());
  problem.memory_limit = 5;
  EXPECT_TRUE(SearchModel(problem).complete());
  problem.rank_of_stage = {0, 1, 0, 1};
  EXPECT_FALSE(SearchModel(problem).complete());
  problem.memory_limit = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(SearchModel(problem).complete());
  problem.costs.message_bytes = 1;
  EXPECT_TRUE(SearchModel(problem).complete());
  problem.costs.link.bandwidth = 1;
  EXPECT_FALSE(SearchModel(problem).complete());
  problem.rank_of_stage = {0, 1};
  EXPECT_TRUE(SearchModel(problem).complete());
  problem.costs.stages[0].weight_grad = 3;
  EXPECT_FALSE(SearchModel(problem).complete());
}

TEST(SearchState, ALongPastEndsWithoutRecursion) {
  const SearchProblem problem{
      .rank_of_stage = {0}, .microbatches = 1 << 18, .costs = {}};
  const SearchModel model(problem);
  Partial partial = model.start();
  for (int i = 0; i < 1 << 18; ++i)
    partial = model.after(
        std::move(partial),
        {.action = Action(ActionKind::Forward, 0, i), .rank = 0, .start = 0, .end = 1});
  EXPECT_EQ(partial.forwards(0), 1 << 18);
}

}  // namespace
}  // namespace trireme::sched
