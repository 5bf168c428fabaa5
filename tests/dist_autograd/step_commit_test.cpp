// Steps that all owners take, or none: also when somebody fails or dies in between.
#include "trireme/dist_autograd/step_commit.h"

#include <csignal>
#include <limits>
#include <random>
#include <unistd.h>

#include "optimizer_world.h"

namespace trireme::dist_autograd {
namespace {

using std::chrono::milliseconds;
using testing::RpcProcesses;
using testing::SharedNumber;

// The parameters are sums of what they were multiplied by, times -1.
void backward_through(
    const Agent& agent,
    const Context& context,
    const Parameters& weights,
    double factor) {
  Tensors losses;
  for (const Parameter& weight : weights)
    losses.push_back(agent.to(weight.owner())
                         .call<at::Tensor>("times", weight, at::full({2}, factor))
                         .sum());
  context.backward(losses);
}

TEST(StepCommitRanks, NobodyStepsWhereOneGradientIsNotFinite) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const Parameters weights =
        keep_by_turns(agent, {at::ones({2}), at::ones({2})}, {"worker1", "worker2"});
    for (const bool all_or_none : {true, false}) {
      DistributedOptimizer optimizer(
          agent, weights, {.kind = Sgd{.lr = 1}, .all_or_none = all_or_none});
      const Context context(agent);
      backward_through(agent, context, {weights[0]}, 1);
      backward_through(
          agent, context, {weights[1]}, std::numeric_limits<double>::infinity());
      if (all_or_none) {
        const std::string why =
            message_of<rpc::RemoteError>([&] { optimizer.step(context); });
        EXPECT_TRUE(contains(why, "from worker worker2"));
        EXPECT_TRUE(contains(why, "expected finite gradients, got one of parameter 1"));
        EXPECT_EQ(optimizer.steps(), 0);
        EXPECT_TRUE(at::equal(value_of(weights[0]), at::ones({2})));
        EXPECT_TRUE(at::equal(value_of(weights[1]), at::ones({2})));
      } else {
        optimizer.step(context);
        EXPECT_TRUE(at::equal(value_of(weights[0]), at::zeros({2})));
      }
    }
  });
}

TEST(StepCommitRanks, AnOwnerThatFailsToPrepareStopsAll) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const Parameters weights = keep_by_turns(
        agent, {at::ones({2, 1}), at::ones({2, 1})}, {"worker1", "worker2"});
    DistributedOptimizer optimizer(
        agent, weights, {.kind = Sgd{.lr = 1}, .all_or_none = true});
    {
      const Context context(agent);
      context.backward(
          {loss_of(agent, {weights[0]}, at::ones({1, 2})),
           loss_of(agent, {weights[1]}, at::ones({1, 2}))});
      agent.to("worker2").call<void>("flatten", weights[1]);
      EXPECT_THROW(optimizer.step(context), rpc::RemoteError);
    }
    EXPECT_TRUE(at::equal(value_of(weights[0]), at::ones({2, 1})));
    EXPECT_TRUE(at::equal(value_of(weights[1]), at::ones({2})));
    const Context context(agent);
    backward_through(agent, context, {weights[1]}, 1);
    EXPECT_EQ(optimizer.step(context).parameters, 1);
    EXPECT_TRUE(at::equal(value_of(weights[1]), at::zeros({2})));
  });
}

// The schedule is asked when all have prepared: what it throws comes in between.
TEST(StepCommitRanks, NobodyStepsWhereTheDriverFailsInBetween) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const Parameters weights =
        keep_by_turns(agent, {at::ones({2}), at::ones({2})}, {"worker1", "worker2"});
    bool fails = true;
    DistributedOptimizer optimizer(
        agent,
        weights,
        {.kind = Sgd{.lr = 1}, .all_or_none = true, .lr_factor = [&](std::int64_t) {
           if (fails)
             throw std::runtime_error("no schedule");
           return 1.0;
         }});
    const Context context(agent);
    backward_through(agent, context, weights, 1);
    EXPECT_THROW(optimizer.step(context), std::runtime_error);
    EXPECT_TRUE(at::equal(value_of(weights[0]), at::ones({2})));
    fails = false;
    EXPECT_EQ(optimizer.step(context).parameters, 2);
    EXPECT_TRUE(at::equal(value_of(weights[0]), at::zeros({2})));
    EXPECT_TRUE(at::equal(value_of(weights[1]), at::zeros({2})));
  });
}

// Workers 0 and 1 own a parameter each, which lives as long as they do; worker 2
// drives, until it is killed: by itself, or after `time`. Gives how often both have
// stepped.
using Drive = std::function<void(Agent&, const Parameters&)>;

std::int64_t steps_of_killed(
    const Drive& drive, std::optional<milliseconds> time = std::nullopt) {
  const SharedNumber steps[2];
  const SharedNumber driving;
  const at::Tensor own = at::zeros({2}).set_requires_grad(true);
  rpc::FunctionTable functions = layer_functions();
  functions.add("own", [own] { return rpc::this_agent().own(own); });
  RpcProcesses world(3, with_functions(functions));
  for (int rank = 0; rank < 3; ++rank)
    world.start([&](Agent& agent) {
      if (agent.me().id == 2) {
        Parameters weights;
        for (const rpc::WorkerId owner : {0, 1})
          weights.push_back(agent.to(owner).call<Parameter>("own"));
        ++*driving;
        drive(agent, weights);
        return 1;
      }
      EXPECT_TRUE(soon([&] { return *driving == 1; }));
      EXPECT_TRUE(soon([&] { return agent.references().empty(); }));
      const auto say_steps = [&] {
        *steps[agent.me().id] = 1 - own.detach()[0].item<std::int64_t>();
        return *steps[0] == *steps[1];
      };
      EXPECT_TRUE(soon(say_steps))
          << "worker0: " << *steps[0] - 1 << ", worker1: " << *steps[1] - 1;
      ++*driving;
      EXPECT_TRUE(soon([&] { return *driving == 3; }));
      return testing::kNoticed;
    });
  if (time) {
    EXPECT_TRUE(soon([&] { return *driving == 1; }));
    std::this_thread::sleep_for(*time);
    world.processes().kill(2, SIGKILL);
  }
  testing::expect_noticed(world.processes().wait(std::chrono::seconds(40)), 2);
  EXPECT_EQ(*steps[0], *steps[1]);
  return *steps[0] - 1;
}

void kill_me() {
  ::kill(::getpid(), SIGKILL);
}

TEST(StepCommitProcs, NobodyStepsWhereTheDriverDiesInBetween) {
  const auto steps = steps_of_killed([](Agent& agent, const Parameters& weights) {
    DistributedOptimizer optimizer(
        agent,
        weights,
        {.kind = Sgd{.lr = 1}, .all_or_none = true, .lr_factor = [](std::int64_t step) {
           if (step == 1)
             kill_me();
           return 1.0;
         }});
    for (int step = 0; step < 2; ++step) {
      const Context context(agent);
      backward_through(agent, context, weights, 1);
      optimizer.step(context);
    }
  });
  EXPECT_EQ(steps, 1);
}

// It has told the first owner, and nobody else.
TEST(StepCommitProcs, AllStepWhereTheFirstHas) {
  namespace calls = optimizer_calls;
  const auto steps = steps_of_killed([](Agent& agent, const Parameters& weights) {
    const Context context(agent);
    backward_through(agent, context, weights, 1);
    const StepPlan plan{
        .step = {agent.me().id, 1, 1}, .context = context.id(), .decider = 0};
    std::vector<rpc::RRef<OwnedOptimizer>> parts;
    for (std::int64_t i = 0; i < 2; ++i) {
      const Parameter& weight = weights[static_cast<std::size_t>(i)];
      const std::vector<OwnedGroup> groups{
          {.group = 0, .kind = Sgd{.lr = 1}, .parameters = {weight}, .numbers = {i}}};
      parts.push_back(agent.to(weight.owner()).remote(calls::make, groups));
      EXPECT_EQ(
          parts.back().to_owner().call(calls::prepare, parts.back(), plan).parameters,
          1);
    }
    agent.to(0).call(calls::commit, plan.step, StepOrder{.rates = {1}});
    kill_me();
  });
  EXPECT_EQ(steps, 1);
}

TEST(StepCommitProcs, NobodyStepsWhereAnOwnerIsDead) {
  const SharedNumber ready;
  RpcProcesses world(3, with_functions(layer_functions()));
  for (int rank = 0; rank < 3; ++rank)
    world.start([&](Agent& agent) {
      if (agent.me().id == 2) {
        const Parameters weights = keep_by_turns(
            agent, {at::ones({2}), at::ones({2})}, {"worker0", "worker1"});
        DistributedOptimizer optimizer(
            agent, weights, {.kind = Sgd{.lr = 1}, .all_or_none = true});
        const Context context(agent);
        backward_through(agent, context, {weights[0]}, 1);
        ++*ready;
        EXPECT_TRUE(soon([&] { return weights[1].lost(); }));
        const Deadline deadline = Deadline::after(std::chrono::seconds(2));
        EXPECT_THROW(optimizer.step(context), PeerError);
        EXPECT_FALSE(deadline.expired());
        EXPECT_TRUE(at::equal(value_of(weights[0]), at::ones({2})));
        ++*ready;
      }
      EXPECT_TRUE(soon([&] { return *ready == 2; }));
      return testing::kNoticed;
    });
  EXPECT_TRUE(soon([&] { return *ready == 1; }));
  world.processes().kill(1, SIGKILL);
  testing::expect_noticed(world.processes().wait(std::chrono::seconds(40)), 1);
}

TEST(StepCommitProcs, KillsAtAnyMoment) {
  std::mt19937 random(5);
  for (int round = 0; round < 6; ++round) {
    const auto steps = steps_of_killed(
        [](Agent& agent, const Parameters& weights) {
          DistributedOptimizer optimizer(
              agent, weights, {.kind = Sgd{.lr = 1}, .all_or_none = true});
          for (;;) {
            const Context context(agent);
            backward_through(agent, context, weights, 1);
            optimizer.step(context);
          }
        },
        milliseconds(20 + random() % 60));
    EXPECT_GT(steps, 0);
  }
}

}  // namespace
}  // namespace trireme::dist_autograd
