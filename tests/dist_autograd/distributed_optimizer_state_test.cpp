// Saving and loading what a DistributedOptimizer keeps.
#include <torch/optim/adam.h>

#include "optimizer_world.h"

namespace trireme::dist_autograd {
namespace {

const Adam kAdam{.lr = 1e-2, .amsgrad = true};

// Goes on in another optimizer, over parameters that are on other workers now, as if
// nothing had happened.
TEST(DistributedOptimizerStateRanks, GoesOnWithAnotherPlacement) {
  lead_world(4, layer_functions(), [&](Agent& agent) {
    at::manual_seed(11);
    const Tensors values = layer_values();
    const Twin twin(values);
    torch::optim::Adam twin_optimizer(
        twin.leaves, torch::optim::AdamOptions(1e-2).amsgrad(true));
    TensorMap state;
    Parameters moved;
    {
      const Parameters weights =
          keep_by_turns(agent, values, {"worker1", "worker2", "worker2"});
      DistributedOptimizer optimizer(agent, weights, {.kind = kAdam});
      for (int step = 0; step < 3; ++step)
        step_both(agent, optimizer, weights, twin_optimizer, twin);
      optimizer.set_lr(5e-2);
      state = optimizer.state_dict();
      Tensors now;
      for (const Parameter& weight : weights)
        now.push_back(value_of(weight));
      moved = keep_by_turns(agent, now, {"worker3", "worker0", "worker2", "worker3"});
    }
    EXPECT_EQ(state.size(), 4 * 4 + 2);  // four tensors of each parameter
    EXPECT_EQ(state.at("steps").item<int>(), 3);
    EXPECT_EQ(state.at("parameter.2.step").item<int>(), 3);
    EXPECT_EQ(state.at("group.0.lr").item<double>(), 5e-2);

    DistributedOptimizer optimizer(agent, moved, {.kind = kAdam});
    optimizer.load_state_dict(state);
    EXPECT_EQ(optimizer.steps(), 3);
    EXPECT_EQ(optimizer.lr(), 5e-2);
    twin_optimizer.param_groups()[0].options().set_lr(5e-2);
    for (int step = 0; step < 2; ++step)
      step_both(agent, optimizer, moved, twin_optimizer, twin);
    expect_equal(moved, twin);
    EXPECT_EQ(state.at("parameter.2.step").item<int>(), 3);  // a copy
  });
}

TEST(DistributedOptimizerStateRanks, BeforeTheFirstStepIsAStateToo) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const Parameters weights =
        keep_by_turns(agent, layer_values(), {"worker1", "worker2"});
    DistributedOptimizer optimizer(agent, weights, {.kind = kAdam});
    const TensorMap fresh = optimizer.state_dict();
    EXPECT_EQ(fresh.size(), 2U);
    const Context context(agent);
    context.backward({loss_of(agent, weights, at::randn({3, 5}))});
    optimizer.step(context);
    EXPECT_EQ(optimizer.state_dict().size(), 4 * 4 + 2);
    optimizer.load_state_dict(fresh);
    EXPECT_EQ(optimizer.state_dict().size(), 2U);
    EXPECT_EQ(optimizer.steps(), 0);
  });
}

// Of all that is wrong nothing is loaded, on no owner.
TEST(DistributedOptimizerStateRanks, WrongStatesChangeNothing) {
  lead_world(3, layer_functions(), [&](Agent& agent) {
    const Parameters weights =
        keep_by_turns(agent, layer_values(), {"worker1", "worker2"});
    DistributedOptimizer optimizer(agent, weights, {.kind = kAdam});
    const Context context(agent);
    context.backward({loss_of(agent, weights, at::randn({3, 5}))});
    optimizer.step(context);
    const TensorMap good = optimizer.state_dict();
    const auto refused = [&](const std::function<void(TensorMap&)>& spoil) {
      TensorMap bad = good;
      for (auto& [name, tensor] : bad)
        tensor = tensor + 1;
      spoil(bad);
      const std::string why =
          message_of<Error>([&] { optimizer.load_state_dict(bad); });
      const TensorMap now = optimizer.state_dict();
      EXPECT_EQ(now.size(), good.size());
      for (const auto& [name, tensor] : good)
        EXPECT_TRUE(at::equal(now.at(name), tensor)) << name;
      return why;
    };
    EXPECT_TRUE(contains(
        refused([](TensorMap& state) { state.erase("parameter.3.exp_avg"); }),
        "as the state of parameter 3 for Adam"));
    EXPECT_TRUE(contains(
        refused(
            [](TensorMap& state) { state["parameter.1.exp_avg"] = at::zeros({2}); }),
        "expected exp_avg of parameter 1 in the parameter's shape"));
    EXPECT_TRUE(contains(
        refused([](TensorMap& state) { state["parameter.1.step"] = at::zeros({2}); }),
        "expected step of parameter 1 as one number"));
    EXPECT_TRUE(contains(
        refused([](TensorMap& state) { state.erase("group.0.lr"); }), "group.0.lr"));
    EXPECT_TRUE(contains(
        refused([](TensorMap& state) { state["steps"] = at::full({}, -1); }), "steps"));
    for (const char* const name :
         {"parameter.4.step", "parameter.x.step", "group.1.lr", "momentum"})
      EXPECT_TRUE(contains(
          refused([&](TensorMap& state) { state[name] = at::zeros({}); }), name));
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
