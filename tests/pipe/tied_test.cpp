// Declarations of tied parameters.
#include "trireme/pipe/tied.h"

#include <ATen/ops/ones.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;

const Tied kTied{{0, "embed.weight"}, {3, "head.weight"}};

// An embedding in stage 0, a head in stage 3.
StageShapes shapes(
    std::vector<int64_t> head = {256, 64}, at::ScalarType dtype = at::kFloat) {
  return {
      {0, {{"embed.weight", {256, 64}, at::kFloat}, {"embed.scale", {1}, at::kFloat}}},
      {3, {{"head.weight", std::move(head), dtype}}}};
}

std::string tied_refused(const std::vector<Tied>& tied, const StageShapes& known) {
  return testing::message_of<InvalidArgument>([&] { check_tied(tied, 4, known); });
}

TEST(Tied, MayBeWhatIsAlike) {
  EXPECT_NO_THROW(check_tied({kTied}, 4, shapes()));
  EXPECT_NO_THROW(check_tied({}, 1, {}));
}

TEST(Tied, StagesOfOtherRanksAreNotLookedInto) {
  EXPECT_NO_THROW(check_tied({{{{1, "a"}, {2, "b"}}}}, 4, shapes()));
  // Of three places two are known, and not the first.
  EXPECT_TRUE(contains(
      tied_refused(
          {{{{1, "a"}, {0, "embed.weight"}, {3, "head.weight"}}}}, shapes({64, 256})),
      "one shape and dtype"));
}

TEST(Tied, RefusesWhatIsNotAlike) {
  EXPECT_TRUE(contains(
      tied_refused({kTied}, shapes({64, 256})),
      "[pipe] expected tied parameters of one shape and dtype, got {0, "
      "\"embed.weight\"} "
      "of Float [256, 64] and {3, \"head.weight\"} of Float [64, 256]"));
  EXPECT_TRUE(contains(
      tied_refused({kTied}, shapes({256, 64}, at::kBFloat16)),
      "of BFloat16 [256, 64]"));
}

TEST(Tied, RefusesUnknownPlaces) {
  EXPECT_TRUE(contains(
      tied_refused({{{{0, "embed"}, {3, "head.weight"}}}}, shapes()),
      "[pipe] tied parameter {0, \"embed\"}: expected a parameter of stage 0, got a "
      "name "
      "that it does not have; it has embed.weight, embed.scale"));
  for (const int stage : {-1, 4})
    EXPECT_TRUE(contains(
        tied_refused({{{{stage, "embed.weight"}, {3, "head.weight"}}}}, shapes()),
        text("expected a stage in [0, 4), got ", stage)));
}

TEST(Tied, RefusesFewerThanTwoPlaces) {
  EXPECT_TRUE(contains(
      tied_refused({{{{0, "embed.weight"}}}}, shapes()),
      "[pipe] expected at least two places for a tied parameter, got "
      "Tied{{0, \"embed.weight\"}}"));
  EXPECT_TRUE(contains(tied_refused({Tied{}}, shapes()), "at least two places"));
}

TEST(Tied, RefusesAPlaceThatIsNamedTwice) {
  EXPECT_TRUE(contains(
      tied_refused({{{{0, "embed.weight"}, {0, "embed.weight"}}}}, shapes()),
      "[pipe] expected each place of tied parameters once, got {0, \"embed.weight\"} "
      "twice in one"));
  EXPECT_TRUE(contains(
      tied_refused({kTied, {{{0, "embed.weight"}, {2, "other"}}}}, shapes()),
      "got {0, \"embed.weight\"} in two; name all places of a parameter once"));
}

TEST(Tied, ShapesAreThoseOfTheTensors) {
  const auto found =
      shapes_of({{"w", at::ones({2, 3}, at::kDouble)}, {"b", at::ones({})}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "w");
  EXPECT_EQ(found[0].sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(found[0].dtype, at::kDouble);
  EXPECT_TRUE(found[1].sizes.empty());
}

TEST(Tied, AreFoundInStagesOfOneModel) {
  const at::Tensor a = at::ones({2}), b = at::ones({2}), c = at::ones({2});
  const auto found = find_tied(
      {{{"a", a}, {"again", a}, {"b", b}},
       {{"c", c}},
       {{"d", b}, {"e", a}},
       {{"f", b}}});
  EXPECT_EQ(
      found,
      (std::vector<Tied>{{{{0, "a"}, {2, "e"}}}, {{{0, "b"}, {2, "d"}, {3, "f"}}}}));
  EXPECT_TRUE(find_tied(std::vector<NamedTensors>{{{"a", a}, {"again", a}}}).empty());
}

TEST(Tied, LiteralsNeedNoBracesOfTheirOwn) {
  const std::vector<Tied> one{{{0, "embed.weight"}, {3, "head.weight"}}};
  EXPECT_EQ(one, std::vector<Tied>{kTied});
  const std::vector<Tied> two{
      {{0, "embed.weight"}, {3, "head.weight"}}, {{1, "a"}, {2, "b"}}};
  EXPECT_EQ(two[0], kTied);
  EXPECT_EQ(two[1].places[1].name, "b");
  // And with the braces that it used to need.
  EXPECT_EQ((Tied{{{0, "embed.weight"}, {3, "head.weight"}}}), kTied);
}

TEST(Tied, AreShownAsAProgramWritesThem) {
  EXPECT_EQ(to_text(kTied), "Tied{{0, \"embed.weight\"}, {3, \"head.weight\"}}");
}

}  // namespace
}  // namespace trireme::pipe
