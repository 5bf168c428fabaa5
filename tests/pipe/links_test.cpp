#include "trireme/pipe/links.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::pipe {
namespace {

std::vector<size_t> outputs(const Links& links, int stage, size_t edge, size_t count) {
  std::vector<size_t> found;
  links.for_each_output(
      stage, edge, count, [&](size_t output) { found.push_back(output); });
  return found;
}

TEST(Links, AChainGivesEverythingToTheNext) {
  const Links links(3, {});
  EXPECT_EQ(links.in(0), std::vector<int>{});
  EXPECT_EQ(links.in(2), std::vector<int>{1});
  EXPECT_EQ(links.out(0).size(), 1U);
  EXPECT_EQ(links.out(2).size(), 0U);
  EXPECT_EQ(outputs(links, 0, 0, 3), (std::vector<size_t>{0, 1, 2}));
  EXPECT_TRUE(links.extra_edges().empty());
}

TEST(Links, ASkipTakesItsOutputPastTheNextStage) {
  const Links links(
      4, {{.from = 0, .output = 1, .to = 3}, {.from = 1, .output = 0, .to = 3}});
  EXPECT_EQ(outputs(links, 0, 0, 3), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(outputs(links, 0, links.out_edge(0, 3), 3), std::vector<size_t>{1});
  EXPECT_EQ(links.in(3), (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(links.in_edge(3, 1), 2U);
  EXPECT_EQ(
      links.extra_edges(),
      (std::vector<sched::StageEdge>{{.from = 0, .to = 3}, {.from = 1, .to = 3}}));
}

TEST(Links, SeveralSkipsBetweenTwoStagesShareAnEdge) {
  const Links links(
      3, {{.from = 0, .output = 2, .to = 2}, {.from = 0, .output = 0, .to = 2}});
  EXPECT_EQ(links.extra_edges().size(), 1U);
  EXPECT_EQ(outputs(links, 0, 1, 3), (std::vector<size_t>{2, 0}));
  EXPECT_EQ(outputs(links, 0, 0, 3), std::vector<size_t>{1});
}

TEST(Links, SkipsArriveInTheOrderGiven) {
  const Links links(
      4,
      {{.from = 0, .output = 1, .to = 3},
       {.from = 1, .output = 1, .to = 3},
       {.from = 0, .output = 2, .to = 3}});
  // Edge by edge that is 0's two, then 1's.
  EXPECT_EQ(links.skip_order(3), (std::vector<size_t>{0, 2, 1}));
  EXPECT_TRUE(links.skip_order(2).empty());
}

TEST(Links, NamesFindTheirWayWhereverTheModelIsCut) {
  // Stage 0 saves a and b; stage 1 takes a, stage 2 takes b and a, and saves c.
  const Links links(
      4,
      {{.from = 0, .output = 1, .to = 2}},
      {{.saved = {"a", "b"}},
       {.taken = {"a"}},
       {.saved = {"c"}, .taken = {"b", "a"}},
       {.taken = {"c"}}});
  EXPECT_EQ(links.saved(0), 2U);
  EXPECT_EQ(links.taken(2), 2U);
  // Of four outputs of stage 0 the last two are saved: the next stage gets the first,
  // and a; stage 2 the second, and b and a.
  EXPECT_EQ(outputs(links, 0, 0, 4), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(outputs(links, 0, links.out_edge(0, 2), 4), (std::vector<size_t>{1, 3, 2}));
  EXPECT_EQ(outputs(links, 1, 0, 2), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(outputs(links, 2, 0, 2), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(links.skip_order(1), std::vector<size_t>{0});
  EXPECT_EQ(links.skip_order(2), (std::vector<size_t>{0, 1, 2}));
  // To the next stage it is no extra edge.
  EXPECT_EQ(links.extra_edges(), (std::vector<sched::StageEdge>{{.from = 0, .to = 2}}));
}

TEST(Links, NamesComeInTheOrderInWhichTheyAreTaken) {
  const Links links(3, {}, {{.saved = {"a"}}, {.saved = {"b"}}, {.taken = {"a", "b"}}});
  // Edge by edge that is b of the stage before, and then a.
  EXPECT_EQ(links.in(2), (std::vector<int>{1, 0}));
  EXPECT_EQ(links.skip_order(2), (std::vector<size_t>{1, 0}));
}

std::string refused_names(const std::vector<StageSkips>& named) {
  return testing::message_of<InvalidArgument>(
      [&] { Links(static_cast<int>(named.size()), {}, named); });
}

TEST(Links, RefusesNamesThatLeadNowhere) {
  EXPECT_EQ(
      refused_names({{}, {.taken = {"a"}}}),
      "[pipe] expected a stage before stage 1 to save \"a\", which stage 1 takes, got "
      "none; see saving() in layers.h");
  EXPECT_NE(
      refused_names({{.taken = {"a"}}, {.saved = {"a"}}}).find("got it from stage 1"),
      std::string::npos);
  EXPECT_NE(
      refused_names({{.saved = {"a"}}, {.saved = {"a"}}})
          .find("saved once, got \"a\" from stage 0 and from stage 1"),
      std::string::npos);
}

TEST(Links, TheLastStageHasOneRootTheLoss) {
  const Links links(2, {}, {{}, {.saved = {"its own"}}});
  EXPECT_EQ(outputs(links, 1, 0, 1), std::vector<size_t>{0});
}

TEST(Links, SaysThatAStageHasNotReturnedWhatItSaves) {
  const Links links(2, {}, {{.saved = {"a", "b"}}, {.taken = {"a", "b"}}});
  try {
    outputs(links, 0, 0, 1);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(
        std::string(error.what()).find("return the 2 tensors that it saves by name"),
        std::string::npos);
  }
}

TEST(Links, RefusesConnectionsThatAreNone) {
  for (const SkipConnection& skip : std::vector<SkipConnection>{
           {.from = 0, .output = 0, .to = 1},
           {.from = 1, .output = 0, .to = 0},
           {.from = 0, .output = 0, .to = 3},
           {.from = -1, .output = 0, .to = 2},
           {.from = 0, .output = -1, .to = 2}})
    EXPECT_THROW(Links(3, {skip}), InvalidArgument);
}

TEST(Links, SaysWhichOutputIsMissing) {
  const Links links(3, {{.from = 0, .output = 4, .to = 2}});
  try {
    outputs(links, 0, 1, 2);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(
        error.what(),
        "[pipe] expected stage 0 to have an output 4 for its skip connection to stage "
        "2, "
        "got 2 outputs; return it from the stage's forward");
  }
}

}  // namespace
}  // namespace trireme::pipe
