// Models cut into stages.
#include "trireme/pipe/split_model.h"

#include "models.h"
#include "trireme/core/error.h"
#include "trireme/sched/schedule.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;
using Where = SplitPoint::Where;

std::string split_refused(const std::function<void()>& body) {
  return testing::message_of<InvalidArgument>(body);
}

// Layers whose parameters count n * n + n.
LayerList sized(const std::vector<int64_t>& widths) {
  LayerList layers;
  for (const int64_t width : widths)
    layers.push_back(linear(text("l", layers.size()), width, width));
  return layers;
}

std::vector<sched::LayerCosts> costs_of(
    const LayerList& layers, const std::vector<double>& times) {
  std::vector<sched::LayerCosts> costs;
  for (size_t i = 0; i < times.size(); ++i)
    costs.push_back(
        {.name = layers[i].name,
         .costs = {.forward = times[i] / 4, .backward = times[i] * 3 / 4}});
  return costs;
}

TEST(SplitModel, AtPoints) {
  const LayerList model = mlp(3, 2);
  EXPECT_EQ(
      outline(split_at(model, {{"fc1"}, {"gelu1", Where::End}})),
      "fc0 gelu0 | fc1 gelu1 | fc2 gelu2");
  // In any order.
  EXPECT_EQ(
      outline(split_at(model, {{"gelu2"}, {"fc0", Where::End}})),
      "fc0 | gelu0 fc1 gelu1 fc2 | gelu2");
  EXPECT_EQ(outline(split_at(model, {})), "fc0 gelu0 fc1 gelu1 fc2 gelu2");
}

TEST(SplitModel, ByParameters) {
  EXPECT_EQ(
      outline(split_by_parameters(mlp(4, 4), 2)),
      "fc0 gelu0 fc1 gelu1 | fc2 gelu2 fc3 gelu3");
  EXPECT_EQ(outline(split_by_parameters(mlp(2, 4), 4)), "fc0 | gelu0 | fc1 | gelu1");
  // A heavy end, as an output layer is.
  EXPECT_EQ(
      outline(split_by_parameters(sized({4, 4, 4, 4, 9}), 2)), "l0 l1 l2 l3 | l4");
  EXPECT_EQ(
      outline(split_by_parameters(sized({9, 4, 4, 4, 9}), 3)), "l0 | l1 l2 l3 | l4");
}

TEST(SplitModel, ThereAndBackByParameters) {
  // Rank 0 has the first and the last stage: the heavy ends would burden it twice, so
  // it gets nothing else, and rank 1 all the rest.
  const auto owners = sched::map_stages(sched::StageMap::V, 2, 4);
  EXPECT_EQ(
      outline(split_by_parameters(sized({6, 4, 4, 4, 4, 6}), owners)),
      "l0 | l1 l2 | l3 l4 | l5");
}

TEST(SplitModel, ByCosts) {
  const LayerList model = sized({2, 2, 2, 2, 2});
  EXPECT_EQ(
      outline(split_by_costs(model, costs_of(model, {8, 1, 1, 1, 1}), {0, 1})),
      "l0 | l1 l2 l3 l4");
  EXPECT_EQ(
      outline(split_by_costs(model, costs_of(model, {1, 1, 1, 1, 4}), {0, 1})),
      "l0 l1 l2 l3 | l4");
  // There and back: 3 and 1 on the outer rank, 1 + 1 and 2 on the inner.
  const auto stages =
      split_by_costs(model, costs_of(model, {3, 1, 1, 2, 1}), {0, 1, 1, 0});
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_EQ(stages.front().size(), 1u);
  EXPECT_EQ(stages.back().size(), 1u);
}

TEST(SplitModel, ByRanges) {
  EXPECT_EQ(
      outline(split_ranges(sized({2, 2, 2, 2}), {{0, 1}, {1, 3}, {3, 4}})),
      "l0 | l1 l2 | l3");
}

TEST(SplitModel, KeepsTheNamesAndTheTensors) {
  const LayerList model = mlp(3, 4);
  NamedTensors together;
  for (const LayerList& stage : split_by_parameters(model, 3))
    for (auto& item : parameters(stage))
      together.push_back(std::move(item));
  const NamedTensors whole = parameters(model);
  ASSERT_EQ(together.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(together[i].first, whole[i].first);
    EXPECT_TRUE(together[i].second.is_same(whole[i].second));
  }
}

TEST(SplitModel, RefusesPointsThatCannotBe) {
  const LayerList model = mlp(2, 2);
  const auto message = [&](std::vector<SplitPoint> points) {
    return split_refused([&] { split_at(model, points); });
  };
  EXPECT_TRUE(contains(
      message({{"fc2"}}),
      "[pipe] expected a split point at a layer of the list, got the beginning of "
      "\"fc2\"; the layers are fc0, gelu0, fc1, gelu1"));
  EXPECT_TRUE(contains(
      message({{"fc1"}, {"fc1"}}),
      "[pipe] expected each split point once, got the beginning of \"fc1\" and the "
      "beginning of \"fc1\", which are one place; remove one"));
  EXPECT_TRUE(contains(
      message({{"fc1"}, {"gelu0", Where::End}}),
      "the beginning of \"fc1\" and the end of \"gelu0\""));
  EXPECT_TRUE(contains(
      message({{"fc0"}}),
      "[pipe] expected split points with layers on both sides, got the beginning of "
      "\"fc0\", which leaves an empty stage; remove it"));
  EXPECT_TRUE(contains(message({{"gelu1", Where::End}}), "the end of \"gelu1\""));
}

TEST(SplitModel, RefusesNumbersOfStagesThatCannotBe) {
  const LayerList model = mlp(2, 2);
  EXPECT_TRUE(contains(
      split_refused([&] { split_by_parameters(model, 5); }),
      "[pipe] expected between 1 and 4 stages, one for each layer at most, got 5; take "
      "fewer stages, or cut the model into more layers"));
  for (const int stages : {0, -2})
    EXPECT_TRUE(contains(
        split_refused([&] { split_by_parameters(model, stages); }),
        text(
            "expected between 1 and 4 stages, one for each layer at most, got ",
            stages)));
  EXPECT_TRUE(
      contains(split_refused([&] { split_by_parameters({}, 1); }), "one layer"));
}

TEST(SplitModel, RefusesCostsOfAnotherModel) {
  const LayerList model = sized({2, 2, 2});
  auto costs = costs_of(model, {1, 1, 1});
  costs[1].name = "other";
  EXPECT_TRUE(contains(
      split_refused([&] {
        split_by_costs(model, costs, {0, 1});
      }),
      "[pipe] expected costs of layer 1, \"l1\", got those of \"other\""));
  costs[1].name = "";
  EXPECT_NO_THROW(split_by_costs(model, costs, {0, 1}));
  costs.pop_back();
  EXPECT_TRUE(contains(
      split_refused([&] {
        split_by_costs(model, costs, {0, 1});
      }),
      "[pipe] expected costs of 3 layers, got 2"));
}

TEST(SplitModel, RefusesRangesThatAreNone) {
  const LayerList model = sized({2, 2, 2});
  const auto message = [&](std::vector<sched::LayerRange> ranges) {
    return split_refused([&] { split_ranges(model, ranges); });
  };
  EXPECT_TRUE(contains(
      message({{0, 1}, {2, 3}}), "got [2, 3) for stage 1, which must begin at 1"));
  EXPECT_TRUE(contains(message({{0, 1}, {1, 1}, {1, 3}}), "[1, 1) for stage 1"));
  EXPECT_TRUE(contains(
      message({{0, 2}}), "expected ranges of all 3 layers, got those up to 2"));
  EXPECT_TRUE(contains(message({{0, 4}}), "got those up to 4"));
  EXPECT_TRUE(contains(message({}), "up to 0"));
}

TEST(SplitModel, RefusesDuplicateNames) {
  const LayerList model{gelu("a"), gelu("b"), gelu("a")};
  EXPECT_TRUE(
      contains(split_refused([&] { split_by_parameters(model, 2); }), "\"a\" twice"));
  EXPECT_TRUE(
      contains(split_refused([&] { split_at(model, {{"b"}}); }), "\"a\" twice"));
}

TEST(SplitModel, ATensorInTwoStagesMustBeDeclared) {
  const Layer embed = linear("embed", 4, 4);
  const LayerList model{embed, linear("block", 4, 4), shared("head", embed)};
  const std::string message = split_refused([&] { split_by_parameters(model, 3); });
  EXPECT_TRUE(contains(
      message,
      "[pipe] expected each parameter in one stage, got \"head.weight\" of stage 2, "
      "which "
      "is \"embed.weight\" of stage 0; cut elsewhere, or allow it"));
  EXPECT_TRUE(
      contains(message, "as tied: Tied{{0, \"embed.weight\"}, {2, \"head.weight\"}}"));
  // Within a stage there is nothing to declare.
  EXPECT_NO_THROW(split_by_parameters(model, 1));

  const auto stages = split_by_parameters(model, 3, {.allow_tied = true});
  EXPECT_EQ(
      find_tied(stages),
      (std::vector<Tied>{
          {{{0, "embed.weight"}, {2, "head.weight"}}},
          {{{0, "embed.bias"}, {2, "head.bias"}}}}));
  EXPECT_TRUE(find_tied(split_by_parameters(mlp(2, 2), 2)).empty());
}

TEST(SplitModel, ChecksSkipsOfTheWholeModel) {
  LayerList model = mlp(2, 2);
  model[0] = saving(model[0], "skip");
  EXPECT_TRUE(contains(
      split_refused([&] { split_by_parameters(model, 2); }),
      "a layer that takes \"skip\", got none"));
}

}  // namespace
}  // namespace trireme::pipe
