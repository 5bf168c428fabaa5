#include "trireme/dist_autograd/optimizer_desk.h"

#include "optimizer_world.h"

namespace trireme::dist_autograd {
namespace {

namespace calls = optimizer_calls;

rpc::RRef<OwnedOptimizer> make_on(Agent& agent, const Parameter& weight) {
  const std::vector<OwnedGroup> groups{
      {.group = 0, .kind = Sgd{.lr = 1}, .parameters = {weight}, .numbers = {0}}};
  return agent.to(weight.owner()).remote(calls::make, groups);
}

// The calls of a step stand in no context, even where one is.
TEST(OptimizerDeskRanks, StepsAreInNoContext) {
  lead_world(2, layer_functions(), [&](Agent& agent) {
    const Parameter weight = keep_on(agent, "worker1", at::ones({2}));
    const Context context(agent);
    const auto part = make_on(agent, weight);
    EXPECT_FALSE(agent.to(1)
                     .call(calls::step, part, context.id(), StepOrder{{1}, 1})
                     .in_context);
    context.backward({agent.to(1).call<at::Tensor>("sum", weight)});
    const StepPart done =
        agent.to(1).call(calls::step, part, context.id(), StepOrder{{1}, 1});
    EXPECT_TRUE(done.in_context);
    EXPECT_EQ(done.parameters, 1);
    EXPECT_TRUE(at::equal(value_of(weight), at::zeros({2})));
  });
}

TEST(OptimizerDeskRanks, OnlyItsDriverSaysWhatBecomesOfAStep) {
  lead_world(2, layer_functions(), [&](Agent& agent) {
    const Parameter weight = keep_on(agent, "worker1", at::ones({2}));
    const auto part = make_on(agent, weight);
    const Context context(agent);
    const rpc::Caller owner = agent.to(1);
    const StepId foreign{.driver = 1, .start = 1, .number = 1};
    const auto refused = [](const std::function<void()>& call) {
      EXPECT_TRUE(contains(
          message_of<rpc::RemoteError>(call), "word of a step from its worker 1"));
    };
    refused([&] {
      owner.call(
          calls::prepare, part, StepPlan{.step = foreign, .context = context.id()});
    });
    refused([&] { owner.call(calls::commit, foreign, StepOrder{{1}, 1}); });
    refused([&] { owner.call(calls::give_up, foreign); });
    refused([&] { owner.call(calls::settle, foreign); });
  });
}

TEST(OptimizerDeskRanks, WhatWasGivenUpIsNotTaken) {
  lead_world(2, layer_functions(), [&](Agent& agent) {
    const Parameter weight = keep_on(agent, "worker1", at::ones({2}));
    const auto part = make_on(agent, weight);
    const Context context(agent);
    context.backward({agent.to(1).call<at::Tensor>("sum", weight)});
    const rpc::Caller owner = agent.to(1);
    StepPlan plan{
        .step = {agent.me().id, 1, 1},
        .context = context.id(),
        .decider = 1,
        .squares = true};
    EXPECT_NEAR(owner.call(calls::prepare, part, plan).squares, 2, 1e-5);
    EXPECT_FALSE(owner.call(calls::verdict, plan.step).has_value());
    EXPECT_TRUE(contains(
        message_of<rpc::RemoteError>([&] {
          owner.call(calls::commit, plan.step, StepOrder{{1}, 1});
        }),
        "got step 1 of worker 0, which was given up"));
    EXPECT_TRUE(at::equal(value_of(weight), at::ones({2})));
    // One that cannot be taken after all was not taken by anybody.
    plan.step.number = 2;
    owner.call(calls::prepare, part, plan);
    EXPECT_THROW(owner.call(calls::commit, plan.step, StepOrder{}), rpc::RemoteError);
    EXPECT_FALSE(owner.call(calls::verdict, plan.step).has_value());
    plan.step.number = 3;
    owner.call(calls::prepare, part, plan);
    owner.call(calls::commit, plan.step, StepOrder{{1}, 1});
    EXPECT_TRUE(owner.call(calls::verdict, plan.step).has_value());
    EXPECT_TRUE(at::equal(value_of(weight), at::zeros({2})));
    owner.call(calls::settle, plan.step);
    EXPECT_FALSE(owner.call(calls::verdict, plan.step).has_value());
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
