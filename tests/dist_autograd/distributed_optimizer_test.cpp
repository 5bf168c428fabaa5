#include "trireme/dist_autograd/distributed_optimizer.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>

#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "optimizer_world.h"

namespace trireme::dist_autograd {
namespace {

namespace optim = torch::optim;

const std::vector<std::string> kOwners{"worker1", "worker2"};

using MakeTwin = std::function<std::unique_ptr<optim::Optimizer>(Tensors)>;

void expect_as_in_one_process(const OptimizerKind& kind, const MakeTwin& make_twin) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    at::manual_seed(7);
    const Tensors values = layer_values();
    const Parameters weights = keep_by_turns(agent, values, kOwners);
    const Twin twin(values);
    const auto twin_optimizer = make_twin(twin.leaves);
    DistributedOptimizer optimizer(agent, weights, {.kind = kind});
    for (int step = 0; step < 5; ++step)
      step_both(agent, optimizer, weights, *twin_optimizer, twin);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(at::equal(value_of(weights[i]), twin.leaves[i].detach())) << i;
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_FALSE(at::allclose(value_of(weights[i]), values[i], 1.3e-6, 1e-5)) << i;
    EXPECT_EQ(optimizer.steps(), 5);
  });
}

template <class Torch, class Options>
MakeTwin twin_of(Options options) {
  return [options](Tensors leaves) {
    return std::make_unique<Torch>(std::move(leaves), options);
  };
}

TEST(DistributedOptimizerKindsRanks, Sgd) {
  expect_as_in_one_process(
      Sgd{.lr = 0.05}, twin_of<optim::SGD>(optim::SGDOptions(0.05)));
}
TEST(DistributedOptimizerKindsRanks, SgdNesterov) {
  expect_as_in_one_process(
      Sgd{.lr = 1e-3, .momentum = 1, .weight_decay = 1, .nesterov = true},
      twin_of<optim::SGD>(
          optim::SGDOptions(1e-3).momentum(1).weight_decay(1).nesterov(true)));
}
TEST(DistributedOptimizerKindsRanks, AdamAmsgrad) {
  expect_as_in_one_process(
      Adam{.lr = 1e-2, .amsgrad = true},
      twin_of<optim::Adam>(optim::AdamOptions(1e-2).amsgrad(true)));
}
TEST(DistributedOptimizerKindsRanks, AdamWAmsgrad) {
  expect_as_in_one_process(
      AdamW{.lr = 0.05, .amsgrad = true},
      twin_of<optim::AdamW>(optim::AdamWOptions(0.05).amsgrad(true)));
}
TEST(DistributedOptimizerKindsRanks, Adagrad) {
  expect_as_in_one_process(
      Adagrad{.lr = 0.05}, twin_of<optim::Adagrad>(optim::AdagradOptions(0.05)));
}
TEST(DistributedOptimizerKindsRanks, RmsProp) {
  expect_as_in_one_process(
      RmsProp{.lr = 0.05}, twin_of<optim::RMSprop>(optim::RMSpropOptions(0.05)));
}
TEST(DistributedOptimizerKindsRanks, RmsPropCentered) {
  expect_as_in_one_process(
      RmsProp{.lr = 0.01, .weight_decay = 0.1, .momentum = 0.9, .centered = true},
      twin_of<optim::RMSprop>(
          optim::RMSpropOptions(0.01).weight_decay(0.1).momentum(0.9).centered(true)));
}

// The lr of the second group is what torch has as a default: 2.13 mistakes it for one
// that was left out.
TEST(DistributedOptimizerRanks, GroupsHaveTheirOwnOptions) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    at::manual_seed(8);
    const Tensors values = layer_values();
    const Parameters weights = keep_by_turns(agent, values, kOwners);
    const Twin twin(values);
    const Tensors& w = twin.leaves;
    optim::SGD first({w[0], w[1], w[2]}, optim::SGDOptions(0.1).momentum(0.9));
    optim::Adam second({w[3]}, optim::AdamOptions(1e-3));
    const std::vector<ParameterGroup> groups{
        {.parameters = {weights[0], weights[1], weights[2]}},
        {.parameters = {weights[3]}, .kind = Adam{.lr = 1e-3}}};
    DistributedOptimizer optimizer(
        agent, groups, {.kind = Sgd{.lr = 0.1, .momentum = 0.9}});
    EXPECT_EQ(optimizer.lr(0), 0.1);
    EXPECT_EQ(optimizer.lr(1), 1e-3);
    for (int step = 0; step < 3; ++step) {
      step_both(agent, optimizer, weights, first, twin);
      second.step();
    }
    expect_equal(weights, twin);
  });
}

TEST(DistributedOptimizerRanks, ParametersWithoutGradientStay) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const Tensors values = layer_values();
    const Parameters weights = keep_by_turns(agent, values, kOwners);
    DistributedOptimizer optimizer(
        agent, weights, {.kind = AdamW{.lr = 0.1, .weight_decay = 0.5}});
    const Context context(agent);
    context.backward({loss_of(agent, {weights[1]}, at::randn({3, 5}))});
    EXPECT_EQ(optimizer.step(context).parameters, 1);
    for (const std::size_t i : {0, 2, 3})
      EXPECT_TRUE(at::equal(value_of(weights[i]), values[i])) << i;
    EXPECT_FALSE(at::equal(value_of(weights[1]), values[1]));
  });
}

TEST(DistributedOptimizerRanks, LeavesGradAlone) {
  lead_world(2, layer_functions(), [&](Agent& agent) {
    const at::Tensor own = leaf({5, 5});
    own.mutable_grad() = at::full({5, 5}, 3.0);
    const Parameters weights{
        agent.own(own), keep_on(agent, "worker1", at::randn({5, 5}))};
    DistributedOptimizer optimizer(agent, weights, {.kind = Sgd{.lr = 0.1}});
    const at::Tensor before = own.detach().clone();
    const auto version = own._version();
    const Context context(agent);
    context.backward({loss_of(agent, weights, at::randn({3, 5}))});
    const at::Tensor gradient = context.gradient(own).clone();
    optimizer.step(context);
    EXPECT_TRUE(at::equal(own.grad(), at::full({5, 5}, 3.0)));
    EXPECT_TRUE(at::equal(own.detach(), before.add(gradient, -0.1)));
    EXPECT_TRUE(at::equal(context.gradient(own), gradient));
    EXPECT_EQ(own._version(), version);
    const auto grad = agent.to("worker1").call<at::Tensor>("grad_of", weights[1]);
    EXPECT_FALSE(grad.defined());
  });
}

// The parameter's worker may be the driver's, and the gradients sparse.
TEST(DistributedOptimizerRanks, StepsBySparseGradients) {
  lead_world(2, layer_functions(), [&](Agent& agent) {
    const at::Tensor table = leaf({10, 3});
    const at::Tensor before = table.detach().clone();
    const at::Tensor ids = at::tensor({1, 4, 4}, at::kLong);
    DistributedOptimizer sgd(
        agent, {agent.own(table)}, {.kind = Sgd{.lr = 0.5}, .max_norm = 1e3});
    DistributedOptimizer adam(agent, {agent.own(table)}, {.kind = Adam{}});
    const Context context(agent);
    const at::Tensor rows = at::embedding(table, ids, -1, false, /*sparse=*/true);
    context.backward({rows.sum()});
    const std::string why = message_of<rpc::RemoteError>([&] { adam.step(context); });
    EXPECT_TRUE(contains(why, "sparse one of parameter 0"));
    EXPECT_TRUE(at::equal(table.detach(), before));
    // Rows 1 and 4 have gradients of 1 and 2: the norm is that of the sum.
    EXPECT_NEAR(sgd.step(context).norm.value(), std::sqrt(3 * (1 + 4)), 1e-5);
    at::Tensor expected = before.clone();
    expected.select(0, 1).sub_(0.5);
    expected.select(0, 4).sub_(1.0);
    EXPECT_TRUE(at::allclose(table.detach(), expected, 1.3e-6, 1e-5));
  });
}

TEST(DistributedOptimizerRanks, ClipsAsOneProcess) {
  for (const bool all_or_none : {false, true})
    lead_world(3, layer_functions(), [&](Agent& agent) {
      at::manual_seed(9);
      const Tensors values = layer_values();
      const Parameters weights = keep_by_turns(agent, values, kOwners);
      const Twin twin(values);
      optim::SGD twin_optimizer(twin.leaves, optim::SGDOptions(0.5).momentum(0.9));
      DistributedOptimizer optimizer(
          agent,
          weights,
          {.kind = Sgd{.lr = 0.5, .momentum = 0.9},
           .all_or_none = all_or_none,
           .max_norm = 0.7});
      double largest = 0;
      double smallest = std::numeric_limits<double>::infinity();
      for (const double size : {1.0, 1e-3, 2.0, 0.5}) {
        const at::Tensor x = at::randn({3, 5}) * size;
        twin.backward(x);
        const double expected = torch::nn::utils::clip_grad_norm_(twin.leaves, 0.7);
        twin_optimizer.step();
        const Context context(agent);
        context.backward({loss_of(agent, weights, x)});
        const double norm = optimizer.step(context).norm.value();
        EXPECT_NEAR(norm, expected, 1e-5 + 1.3e-6 * expected);
        largest = std::max(largest, norm);
        smallest = std::min(smallest, norm);
      }
      expect_equal(weights, twin);
      EXPECT_GT(largest, 0.7);
      EXPECT_LT(smallest, 0.7);
    });
}

TEST(DistributedOptimizerRanks, LearningRatesFollowTheSchedule) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const at::Tensor zero = at::zeros({2});
    const Parameter a = keep_on(agent, "worker1", zero);
    const Parameter b = keep_on(agent, "worker2", zero);
    const std::vector<ParameterGroup> groups{
        {.parameters = {a}}, {.parameters = {b}, .kind = Sgd{.lr = 10}}};
    DistributedOptimizer optimizer(
        agent, groups, {.kind = Sgd{.lr = 1}, .lr_factor = [](std::int64_t step) {
                          return step == 0 ? 0.0 : 1.0 / static_cast<double>(step);
                        }});
    const auto step = [&] {
      const Context context(agent);
      const at::Tensor one = at::ones({2}).set_requires_grad(true);
      context.backward(
          {agent.to("worker1").call<at::Tensor>("times", a, one).sum(),
           agent.to("worker2").call<at::Tensor>("times", b, one).sum()});
      optimizer.step(context);
    };
    const auto expect_values = [&](double first, double second) {
      EXPECT_TRUE(at::allclose(value_of(a), at::full({2}, first)));
      EXPECT_TRUE(at::allclose(value_of(b), at::full({2}, second)));
    };
    step();
    expect_values(0, 0);
    step();
    expect_values(-1, -10);
    step();
    expect_values(-1.5, -15);
    optimizer.set_lr(1, 30);  // a third of it
    step();
    expect_values(-1.5 - 1.0 / 3, -25);
    optimizer.set_lr(4);
    step();
    expect_values(-2.5 - 1.0 / 3, -26);
    EXPECT_EQ(optimizer.lr(0), 4);
    EXPECT_EQ(optimizer.lr(1), 4);
  });
}

TEST(DistributedOptimizerRanks, ExceptionsInStepNameTheOwner) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const at::Tensor value = at::randn({4, 3});
    const Parameters weights{
        keep_on(agent, "worker1", value), keep_on(agent, "worker2", value)};
    DistributedOptimizer optimizer(agent, weights, {.kind = Sgd{.lr = 1}});
    const Context context(agent);
    context.backward({loss_of(agent, {weights[1]}, at::randn({2, 4}))});
    agent.to("worker2").call<void>("flatten", weights[1]);
    const std::string why =
        message_of<rpc::RemoteError>([&] { optimizer.step(context); });
    EXPECT_TRUE(contains(why, "from worker worker2"));
    EXPECT_TRUE(contains(why, "expected a gradient of parameter 1 in its shape [12]"));
    EXPECT_EQ(optimizer.steps(), 0);
  });
}

// What the other owner has made already goes with the error.
TEST(DistributedOptimizerRanks, ExceptionsInTheConstructorLeaveNothingBehind) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const at::Tensor value = at::randn({3});
    const Parameter good = keep_on(agent, "worker1", value);
    const Parameter bad = keep_on(agent, "worker2", value, false);
    const auto holders = [&] {
      return agent.to("worker1").call<std::int64_t>("holders", good);
    };
    const std::int64_t before = holders();
    {
      const DistributedOptimizer optimizer(agent, {good}, {.kind = Sgd{}});
      EXPECT_GT(holders(), before);
    }
    EXPECT_TRUE(soon([&] { return holders() == before; }));
    const std::string why = message_of<rpc::RemoteError>([&] {
      const DistributedOptimizer optimizer(agent, {good, bad}, {.kind = Sgd{}});
    });
    EXPECT_TRUE(contains(why, "from worker worker2"));
    EXPECT_TRUE(contains(why, "parameter 1 to be a leaf that requires grad"));
    EXPECT_TRUE(soon([&] { return holders() == before; }));
  });
}

TEST(DistributedOptimizerRanks, WhatCannotBeIsRefused) {
  lead_world(2, layer_functions(), [&](Agent& agent) {
    const Parameter weight = keep_on(agent, "worker1", at::randn({3}));
    const auto refused = [&](const Parameters& parameters,
                             DistributedOptimizerOptions options) {
      return message_of<InvalidArgument>(
          [&] { const DistributedOptimizer optimizer(agent, parameters, options); });
    };
    EXPECT_TRUE(contains(refused({}, {.kind = Sgd{}}), "got none in group 0"));
    EXPECT_TRUE(contains(refused({Parameter()}, {.kind = Sgd{}}), "as parameter 0"));
    EXPECT_TRUE(contains(refused({weight}, {.kind = Sgd{.lr = 0}}), "lr above 0"));
    EXPECT_TRUE(contains(
        refused({weight}, {.kind = Sgd{}, .max_norm = 0}), "a max_norm above 0"));
    EXPECT_TRUE(contains(
        refused({weight}, {.kind = Sgd{}, .timeout = std::chrono::seconds(0)}),
        "a timeout above 0"));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] {
          const DistributedOptimizer optimizer(
              agent, std::vector<ParameterGroup>(), {.kind = Sgd{}});
        }),
        "at least one group"));
    EXPECT_TRUE(contains(
        message_of<rpc::RemoteError>([&] {
          const DistributedOptimizer optimizer(
              agent, {weight, weight}, {.kind = Sgd{}});
        }),
        "got one as parameter 0 and as parameter 1"));

    DistributedOptimizer optimizer(
        agent, {weight}, {.kind = Sgd{}, .lr_factor = [](std::int64_t) {
                            return -1.0;
                          }});
    EXPECT_THROW(optimizer.set_lr(0), InvalidArgument);
    EXPECT_THROW(optimizer.set_lr(1, 0.1), InvalidArgument);
    EXPECT_THROW(optimizer.lr(1), InvalidArgument);
    const Context context(agent);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { optimizer.step(context); }),
        "expected lr_factor of at least 0"));
  });
}

TEST(DistributedOptimizerRanks, ContextsThatAreUnknownAreRefused) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const Parameter weight = keep_on(agent, "worker1", at::randn({5, 5}));
    for (const bool all_or_none : {false, true}) {
      DistributedOptimizer optimizer(
          agent, {weight}, {.kind = Sgd{}, .all_or_none = all_or_none});
      ContextId ended;
      {
        const Context context(agent);
        ended = context.id();
        // Nobody there has heard of it yet, which is no error: there are no gradients.
        EXPECT_EQ(optimizer.step(context).parameters, 0);
      }
      EXPECT_TRUE(contains(
          message_of<Error>([&] { optimizer.step(ended); }), to_string(ended)));
      EXPECT_TRUE(contains(
          message_of<Error>([&] {
            optimizer.step(ContextId{2, ended.number});
          }),
          "which no owner has heard of"));
      EXPECT_THROW(optimizer.step(ContextId{7, 1}), InvalidArgument);
    }
  });
}

// A master that has no part in a trainer's context may step by its id.
TEST(DistributedOptimizerRanks, AnotherWorkerMayStep) {
  std::mutex mutex;
  std::optional<ContextId> id;
  std::atomic<bool> stepped{false};
  const at::Tensor weight = at::zeros({2}).set_requires_grad(true);
  rpc::FunctionTable functions = layer_functions();
  functions.add("shared", [weight] { return rpc::this_agent().own(weight); });
  run_world(3, functions, [&](Agent& agent) {
    if (agent.me().id == 1)
      return;
    const auto shared = agent.to(1).call<Parameter>("shared");
    if (agent.me().id == 2) {
      const Context context(agent);
      context.backward({agent.to(1).call<at::Tensor>("sum", shared)});
      {
        const std::lock_guard lock(mutex);
        id = context.id();
      }
      EXPECT_TRUE(soon([&] { return stepped.load(); }));
      return;
    }
    DistributedOptimizer optimizer(
        agent, {shared}, {.kind = Sgd{.lr = 1}, .all_or_none = true});
    ASSERT_TRUE(soon([&] {
      const std::lock_guard lock(mutex);
      return id.has_value();
    }));
    EXPECT_EQ(optimizer.step(*id).parameters, 1);
    EXPECT_TRUE(at::equal(weight.detach(), at::full({2}, -1.0)));
    stepped = true;
  });
}

// Steps of two trainers by optimizers of their own, each by its own context, over the
// same parameters: no step is lost.
TEST(DistributedOptimizerRanks, TwoTrainersWithTwoContextsAtOnce) {
  constexpr int kSteps = 40;
  // So large that steps would run into each other.
  const Tensors values{at::zeros({1 << 20}), at::zeros({1 << 20})};
  rpc::FunctionTable functions = layer_functions();
  functions.add("shared", [values](std::int64_t which) {
    return rpc::this_agent().own(values.at(static_cast<std::size_t>(which)));
  });
  for (const at::Tensor& value : values)
    value.set_requires_grad(true);
  std::atomic<int> under_way{0};
  run_world(4, functions, [&](Agent& agent) {
    if (agent.me().id < 2)
      return;
    Parameters shared;
    for (const rpc::WorkerId owner : {0, 1})
      shared.push_back(agent.to(owner).call<Parameter>("shared", owner));
    DistributedOptimizer optimizer(
        agent, shared, {.kind = Sgd{.lr = 1}, .all_or_none = agent.me().id == 3});
    for (int step = 1; step <= kSteps; ++step) {
      const Context context(agent);
      Tensors losses;
      for (const Parameter& weight : shared)
        losses.push_back(agent.to(weight.owner()).call<at::Tensor>("sum", weight));
      context.backward(losses);
      ++under_way;
      ASSERT_TRUE(soon([&] { return under_way >= 2 * step; }));
      EXPECT_EQ(optimizer.step(context).parameters, 2);
    }
  });
  for (const at::Tensor& value : values)
    EXPECT_TRUE(at::equal(value.detach(), at::full_like(value, -2.0 * kSteps)))
        << value;
}

}  // namespace
}  // namespace trireme::dist_autograd
