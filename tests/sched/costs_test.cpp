// What costs are legal, and what an action takes.
#include "trireme/sched/costs.h"

#include <cmath>

#include "helpers.h"

namespace trireme::sched {
namespace {

std::string refused(const Costs& costs, int stages = 2, int ranks = 2) {
  return refusal([&] { check_costs(costs, stages, ranks); });
}

TEST(Costs, OneForAllOrOneForEach) {
  Costs costs;
  check_costs(costs, 7, 2);
  costs.stages = {{.forward = 1}, {.forward = 2}};
  check_costs(costs, 2, 2);
  EXPECT_EQ(costs.stage(1).forward, 2);
  EXPECT_TRUE(
      contains(refused(costs, 3), "the costs of 3 stages (or of one, for all), got 2"));
  costs.stages.clear();
  EXPECT_TRUE(contains(refused(costs), "got 0"));
}

TEST(Costs, RefusesWhatIsNoTime) {
  for (const double bad :
       {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (double StageCosts::*field :
         {&StageCosts::forward,
          &StageCosts::input_grad,
          &StageCosts::weight_grad,
          &StageCosts::backward,
          &StageCosts::activation_bytes,
          &StageCosts::weight_bytes}) {
      Costs costs;
      costs.stages[0].*field = bad;
      EXPECT_TRUE(contains(refused(costs), "of stage 0 to be a number of at least 0"));
    }
    Costs costs;
    costs.message_bytes = bad;
    EXPECT_TRUE(contains(refused(costs), "message_bytes"));
    costs = {};
    costs.link.latency = bad;
    EXPECT_TRUE(contains(refused(costs), "the latency of the links"));
    costs = {};
    costs.overlap_gain = bad;
    EXPECT_TRUE(contains(refused(costs), "overlap_gain"));
  }
  Costs costs;
  costs.overlap_gain = 1.5;
  EXPECT_TRUE(contains(refused(costs), "overlap_gain from 0 to 1"));
}

TEST(Costs, LinksAreBetweenRanksAndOnce) {
  Costs costs;
  costs.links = {{.from = 0, .to = 2}};
  EXPECT_TRUE(contains(refused(costs), "links between ranks 0 to 1"));
  costs.links = {{.from = -1, .to = 1}};
  EXPECT_TRUE(contains(refused(costs), "links between ranks"));
  costs.links = {{.from = 0, .to = 1}, {.from = 1, .to = 0}, {.from = 0, .to = 1}};
  EXPECT_TRUE(contains(refused(costs), "got twice the link from rank 0 to 1"));
  costs.links = {{.from = 0, .to = 1, .bandwidth = 0}};
  EXPECT_TRUE(contains(refused(costs), "above 0"));
}

TEST(Costs, AnOverlapSavesPartOfItsShorterHalf) {
  Costs costs;
  costs.stages = {{.forward = 3, .backward = 5}, {.forward = 1, .backward = 7}};
  const Action both = Action::overlap({0, 1}, {1, 0});
  EXPECT_EQ(cost_of(both, costs), 10);
  costs.overlap_gain = 0.5;
  EXPECT_EQ(cost_of(both, costs), 8.5);
  costs.overlap_gain = 1;
  EXPECT_EQ(cost_of(both, costs), 7);
  EXPECT_EQ(cost_of(Action(ActionKind::Backward, 0, 0), costs), 5);
  EXPECT_EQ(cost_of(Action(ActionKind::SendForward, 0, 0), costs), 0);
}

}  // namespace
}  // namespace trireme::sched
