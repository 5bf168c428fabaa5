#include "trireme/pipe/stage_owners.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/generate.h"
#include "trireme/testing/message.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::message_of;

TEST(StageOwners, FollowFromWhatTheRanksHave) {
  EXPECT_EQ(check_owners({{0}, {1}}), (std::vector<int>{0, 1}));
  EXPECT_EQ(check_owners({{0, 3}, {1, 2}}), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(check_owners({{3, 0, 1}, {2}}), (std::vector<int>{0, 0, 1, 0}));
}

TEST(StageOwners, RefuseGapsAndDoubles) {
  EXPECT_EQ(
      message_of<Error>([] {
        check_owners({{0}, {2}});
      }),
      "[pipe] expected the stages 0 to 1 of 2, got stage 2 on rank 1; number them "
      "without "
      "gaps over all ranks");
  EXPECT_EQ(
      message_of<Error>([] {
        check_owners({{0, 1}, {1}});
      }),
      "[pipe] expected stage 1 on one rank, got it on rank 0 and on rank 1; give each "
      "stage to one of them");
  EXPECT_EQ(
      message_of<Error>([] {
        check_owners({{0}, {}});
      }),
      "[pipe] expected every rank to have a stage, got none on rank 1; make at least "
      "as "
      "many stages as there are ranks");
  EXPECT_NE(
      message_of<Error>([] { check_owners({{-1}}); }).find("got stage -1"),
      std::string::npos);
}

TEST(StageOwnersRanks, AreTheSameOnAllRanks) {
  testing::run_world(testing::Backend::Local, 3, [](const comm::Group& world) {
    const std::vector<Stage> mine{{.index = world.rank()}, {.index = 5 - world.rank()}};
    EXPECT_EQ(find_owners(mine, world), (std::vector<int>{0, 1, 2, 2, 1, 0}));
  });
}

TEST(StageOwners, ScheduleMustFitTheStages) {
  EXPECT_EQ(make_schedule({.schedule = "1F1B"}, {0, 1}, 4).microbatches, 4);
  EXPECT_EQ(make_schedule({.schedule = "zbvzerobubble"}, {0, 1, 1, 0}, 4).stages(), 4);
  EXPECT_EQ(
      message_of<Error>([] {
        make_schedule({.schedule = "DualPipeV"}, {0, 1, 0, 1}, 4);
      }),
      "[pipe] expected stage 2 on rank 1 for schedule DualPipeV, got it on rank 0; "
      "place "
      "the stages as sched::map_stages says");
  EXPECT_NE(
      message_of<Error>([] {
        make_schedule({.schedule = "1F1B"}, {0, 1, 1}, 4);
      }).find("expected the same number of stages on each of 2 ranks"),
      std::string::npos);
  const sched::Schedule custom =
      sched::generate("GPipe", {.ranks = 2, .microbatches = 2});
  EXPECT_NE(
      message_of<Error>([&] {
        make_schedule({.custom = custom}, {0, 1, 1, 0}, 2);
      }).find("expected 2 stages for schedule GPipe, got 4"),
      std::string::npos);
}

TEST(StageOwners, AutoSuitsAnyMap) {
  const sched::Schedule schedule =
      make_schedule({.schedule = "Auto"}, {0, 1, 1, 0, 0}, 3);
  EXPECT_EQ(schedule.rank_of_stage, (std::vector<int>{0, 1, 1, 0, 0}));
}

TEST(StageOwners, NamesRanksOfASubGroup) {
  EXPECT_EQ(
      message_of<Error>([] {
        check_owners({{0}, {}}, {4, 5});
      }),
      "[pipe] expected every rank to have a stage, got none on rank 1 (world rank 5); "
      "make at least as many stages as there are ranks");
}

TEST(StageOwners, WantsAStore) {
  EXPECT_NE(
      message_of<Error>([] {
        check_stages({}, {.store = nullptr}, {});
      }).find("[pipe] expected a store for gradients, got none"),
      std::string::npos);
}

TEST(StageOwnersRanks, EveryRankKnowsWhatIsSavedAndTaken) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    const auto pass = [](const Tensors& in) { return in; };
    const LayerList layers =
        world.rank() == 0
            ? LayerList{saving(saving(layer("a", pass), "x"), "long name", 1)}
            : LayerList{taking(layer("b", pass), {"long name", "x"})};
    const std::vector<Stage> mine{{world.rank(), make_stage(layers)}};
    const auto all = gather_skips(mine, world, 2);
    using Names = std::vector<std::string>;
    EXPECT_EQ(all[0].saved, (Names{"x", "long name"}));
    EXPECT_EQ(all[0].taken, Names{});
    EXPECT_EQ(all[1].taken, (Names{"long name", "x"}));
  });
}

}  // namespace
}  // namespace trireme::pipe
