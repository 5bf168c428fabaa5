#include "trireme/rpc/remote_module.h"

#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "trireme/rpc/remote_error.h"
#include "trireme/testing/message.h"
#include "trireme/testing/rpc_world.h"

namespace trireme::rpc {
namespace {

using RemoteLinear = RemoteModule<at::Tensor(at::Tensor)>;

ModuleFactory<at::Tensor(at::Tensor)> linear_factory() {
  return ModuleFactory<at::Tensor(at::Tensor)>("Linear")
      .hook(
          "double",
          {.before = nullptr,
           .behind = [](auto&, const auto&, at::Tensor& y) { y = y * 2; }})
      .hook(
          "negate",
          {.before = [](auto&, auto& in) { std::get<0>(in) = -std::get<0>(in); },
           .behind = nullptr});
}

std::shared_ptr<torch::nn::LinearImpl> make_linear(std::int64_t in, std::int64_t out) {
  if (in <= 0)
    throw std::runtime_error("no inputs");
  return std::make_shared<torch::nn::LinearImpl>(in, out);
}

FunctionTable functions_with_linear() {
  FunctionTable functions;
  linear_factory().add_to(functions, make_linear);
  functions.add("use", [](const RemoteLinear& module, const at::Tensor& x) {
    return module.forward(x);
  });
  return functions;
}

class RemoteModuleRanks : public ::testing::Test {
 protected:
  static void run(const std::function<void(Agent&)>& master) {
    testing::run_rpc(
        testing::RpcKind::Threads,
        3,
        {.functions = functions_with_linear()},
        [&](Agent& agent) {
          if (agent.me().id == 0)
            master(agent);
        });
  }
};

at::Tensor by_hand(const StateDict& state, const at::Tensor& x) {
  return at::linear(x, state.at("weight"), state.at("bias"));
}

TEST_F(RemoteModuleRanks, ForwardsHereAndLater) {
  run([](Agent& agent) {
    for (const char* where :
         {"worker1", "worker1/cpu", "rank:1", "rank:2/cpu", "worker0/cpu"}) {
      const RemoteLinear layer(agent, where, "Linear", 4, 3);
      const at::Tensor x = at::rand({2, 4});
      const at::Tensor expected = by_hand(layer.state_dict(), x);
      EXPECT_TRUE(at::allclose(layer.forward(x), expected)) << where;
      EXPECT_TRUE(at::allclose(layer.forward_async(x).get(), expected)) << where;
    }
  });
}

TEST_F(RemoteModuleRanks, ParametersAreTheModulesOwn) {
  run([](Agent& agent) {
    const RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
    const auto parameters = layer.parameters();
    ASSERT_EQ(parameters.size(), 2u);
    EXPECT_EQ(parameters[0].name, "weight");
    EXPECT_EQ(parameters[0].value.owner_name(), "worker1");
    const at::Tensor weight = parameters[0].value.to_here();
    EXPECT_TRUE(weight.requires_grad());
    EXPECT_TRUE(at::equal(weight.detach(), layer.state_dict().at("weight")));
  });
}

// While another worker trains the module.
TEST_F(RemoteModuleRanks, ParametersComeWhole) {
  run([](Agent& agent) {
    constexpr std::int64_t kWide = 600;
    const RemoteLinear layer(agent, "worker1", "Linear", kWide, kWide);
    StateDict state = layer.state_dict();
    const auto load = [&](int round) {
      state["weight"].fill_(round);
      layer.load_state_dict(state);
    };
    load(0);
    std::atomic<bool> over{false};
    std::thread trainer([&] {
      for (int round = 1; !over; ++round)
        load(round);
    });
    const auto weight = layer.parameters().at(0).value;
    for (int i = 0; i < 200; ++i) {
      const at::Tensor seen = weight.to_here().detach();
      EXPECT_EQ(seen.min().item<float>(), seen.max().item<float>()) << i;
    }
    over = true;
    trainer.join();
  });
}

TEST_F(RemoteModuleRanks, StatesComeAndGo) {
  run([](Agent& agent) {
    const RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
    StateDict state = layer.state_dict();
    state["weight"] = at::ones({3, 4});
    layer.load_state_dict(state);
    EXPECT_TRUE(at::equal(layer.state_dict().at("weight"), at::ones({3, 4})));
    StateDict part{{"weight", at::zeros({3, 4})}};
    EXPECT_THROW(layer.load_state_dict(part), RemoteError);
    StateDict wrong = state;
    wrong["bias"] = at::zeros({4});
    EXPECT_THROW(layer.load_state_dict(wrong, false), RemoteError);
    EXPECT_TRUE(at::equal(layer.state_dict().at("weight"), at::ones({3, 4})))
        << "nothing has changed";
    layer.load_state_dict(part, false);
    EXPECT_TRUE(at::equal(layer.state_dict().at("weight"), at::zeros({3, 4})));
  });
}

TEST_F(RemoteModuleRanks, TrainsAndEvaluates) {
  run([](Agent& agent) {
    const RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
    EXPECT_TRUE(layer.is_training());
    layer.eval();
    EXPECT_FALSE(layer.is_training());
    layer.train();
    EXPECT_TRUE(layer.is_training());
    layer.train(false);
    EXPECT_FALSE(layer.is_training());
    layer.to("cpu");
    EXPECT_THROW(layer.to("nowhere"), RemoteError);
  });
}

TEST_F(RemoteModuleRanks, HooksRunWhereTheModuleIs) {
  run([](Agent& agent) {
    const RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
    const at::Tensor x = at::rand({2, 4});
    const StateDict state = layer.state_dict();
    const auto doubles = layer.add_hook("double");
    EXPECT_TRUE(at::allclose(layer.forward(x), by_hand(state, x) * 2));
    const auto negates = layer.add_hook("negate");
    EXPECT_TRUE(at::allclose(layer.forward(x), by_hand(state, -x) * 2));
    layer.remove_hook(doubles);
    EXPECT_TRUE(at::allclose(layer.forward(x), by_hand(state, -x)));
    layer.remove_hook(negates);
    EXPECT_TRUE(at::allclose(layer.forward(x), by_hand(state, x)));
    EXPECT_THROW(layer.remove_hook(negates), RemoteError);
    EXPECT_THROW(layer.add_hook("unknown"), RemoteError);
  });
}

TEST_F(RemoteModuleRanks, MayBeSentToAThirdWorker) {
  run([](Agent& agent) {
    RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
    const at::Tensor x = at::rand({2, 4});
    const at::Tensor y = agent.to("worker2").call<at::Tensor>("use", layer, x);
    EXPECT_TRUE(at::allclose(y, layer.forward(x)));
  });
}

// All that may be done with a module, as a worker that was sent it may try.
std::vector<std::string> refusals_of_all_uses(const RemoteLinear& layer) {
  const std::vector<std::function<void()>> uses{
      [&] {
        layer.forward(at::rand({2, 4}));
      },
      [&] {
        layer.forward_async(at::rand({2, 4})).get();
      },
      [&] { layer.parameters(); },
      [&] { layer.train(); },
      [&] { layer.is_training(); },
      [&] { layer.state_dict(); },
      [&] { layer.load_state_dict({}, false); },
      [&] { layer.to("cpu"); },
      [&] { layer.remove_hook(layer.add_hook("double")); }};
  std::vector<std::string> refusals;
  for (const auto& use : uses)
    try {
      use();
    } catch (const Error& error) {
      refusals.push_back(error.what());
    }
  return refusals;
}

TEST(RemoteModuleRoleRanks, RolesHoldForAllThatIsDoneWithAModule) {
  FunctionTable functions;
  linear_factory().add_to(functions, make_linear, {.roles = {"trainer"}});
  // Another factory of the same type is no way around it.
  ModuleFactory<at::Tensor(at::Tensor)>("Open").add_to(functions, make_linear);
  functions.add("try_all", refusals_of_all_uses);
  functions.add("open_forward", [](const RRef<ModuleHost>& module) {
    this_agent()
        .to(module.owner().id)
        .call<at::Tensor>("Open.forward", module, at::rand({2, 4}));
  });
  functions.add(
      "read", [](const RRef<at::Tensor>& tensor) { return tensor.to_here(); });
  const auto with_a_guest = [](AgentOptions& options) {
    options.role = options.rank == 2 ? "guest" : "trainer";
  };
  testing::run_rpc(
      testing::RpcKind::Threads,
      3,
      {.functions = functions, .edit = with_a_guest},
      [](Agent& agent) {
        if (agent.me().id != 0)
          return;
        const RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
        EXPECT_EQ(refusals_of_all_uses(layer), std::vector<std::string>{});
        const auto refusals =
            agent.to(2).call<std::vector<std::string>>("try_all", layer);
        EXPECT_EQ(refusals.size(), 9u);
        for (const std::string& refusal : refusals)
          EXPECT_TRUE(
              testing::contains(refusal, "with role trainer") &&
              testing::contains(refusal, "role guest"))
              << refusal;
        EXPECT_TRUE(testing::contains(
            testing::message_of<RemoteError>(
                [&] { agent.to(2).call<void>("open_forward", layer.rref()); }),
            "expected a worker with role trainer to use this module, got worker "
            "worker2 with role guest"));
        // A reference to a value is a key to it.
        const at::Tensor weight = layer.state_dict().at("weight");
        EXPECT_TRUE(at::equal(
            agent.to(2)
                .call<at::Tensor>("read", layer.parameters().at(0).value)
                .detach(),
            weight));
      });
}

// Uses of a module that is not made yet wait for it, as long as they may.
TEST(RemoteModuleTimeRanks, CallsTakeTheOptionsOfTheirModule) {
  std::atomic<bool> go{false};
  FunctionTable functions;
  linear_factory().add_to(functions, [&go](std::int64_t in, std::int64_t out) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    while (!go && !deadline.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return make_linear(in, out);
  });
  testing::run_rpc(
      testing::RpcKind::Threads, 2, {.functions = functions}, [&](Agent& agent) {
        if (agent.me().id != 0)
          return;
        const RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
        const RemoteLinear hasty =
            layer.with({.timeout = std::chrono::milliseconds(30)});
        EXPECT_EQ(hasty.name(), layer.name());
        EXPECT_THROW(hasty.state_dict(), TimeoutError);
        EXPECT_THROW(hasty.parameters(), TimeoutError);
        EXPECT_THROW(hasty.train(), TimeoutError);
        EXPECT_THROW(hasty.add_hook("double"), TimeoutError);
        go = true;
        EXPECT_EQ(layer.forward(at::rand({2, 4})).sizes(), at::IntArrayRef({2, 3}));
        EXPECT_EQ(
            layer.with({.timeout = std::chrono::seconds(20)}).state_dict().size(), 2u);
      });
}

// Forward, too; its function waits on the module's worker.
TEST(RemoteModuleTimeRanks, ForwardsTakeTheOptionsOfTheirModule) {
  std::atomic<bool> go{false};
  FunctionTable functions;
  linear_factory()
      .hook(
          "wait",
          {.before =
               [&go](auto&, auto&) {
                 const Deadline deadline = Deadline::after(std::chrono::seconds(20));
                 while (!go && !deadline.expired())
                   std::this_thread::sleep_for(std::chrono::milliseconds(1));
               },
           .behind = nullptr})
      .add_to(functions, make_linear);
  testing::run_rpc(
      testing::RpcKind::Threads, 2, {.functions = functions}, [&](Agent& agent) {
        if (agent.me().id != 0)
          return;
        const RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
        layer.add_hook("wait");
        const RemoteLinear hasty =
            layer.with({.timeout = std::chrono::milliseconds(30)});
        EXPECT_THROW(hasty.forward(at::rand({2, 4})), TimeoutError);
        EXPECT_THROW(hasty.forward_async(at::rand({2, 4})).get(), TimeoutError);
        go = true;
        EXPECT_EQ(layer.forward(at::rand({2, 4})).sizes(), at::IntArrayRef({2, 3}));
      });
}

// Those who call forwards read them without a lock.
TEST(RemoteModuleHookRanks, AreThoseFromBeforeItWasAdded) {
  FunctionTable functions;
  auto linear = linear_factory();
  linear.add_to(functions, make_linear);
  linear.hook("late", {.before = nullptr, .behind = nullptr});
  testing::run_rpc(
      testing::RpcKind::Threads, 2, {.functions = functions}, [](Agent& agent) {
        if (agent.me().id != 0)
          return;
        const RemoteLinear layer(agent, "worker1", "Linear", 4, 3);
        layer.remove_hook(layer.add_hook("double"));
        EXPECT_TRUE(testing::contains(
            testing::message_of<RemoteError>([&] { layer.add_hook("late"); }),
            "expected a hook that the module's worker knows, got \"late\""));
      });
}

TEST_F(RemoteModuleRanks, WhatCannotBeMadeSaysWhy) {
  run([](Agent& agent) {
    const RemoteLinear bad(agent, "worker1", "Linear", 0, 3);
    try {
      bad.wait();
      ADD_FAILURE() << "it should throw";
    } catch (const RemoteError& error) {
      EXPECT_EQ(error.text(), "no inputs");
    }
    EXPECT_THROW(bad.forward(at::rand({2, 4})), RemoteError);
    EXPECT_THROW(RemoteLinear(agent, "worker9", "Linear", 4, 3), InvalidArgument);
    EXPECT_THROW(RemoteLinear(agent, "worker1/moon", "Linear", 4, 3), InvalidArgument);
    EXPECT_THROW(RemoteLinear(agent, "rank:x", "Linear", 4, 3), InvalidArgument);
    const RemoteLinear unknown(agent, "worker1", "Conv", 4, 3);
    EXPECT_THROW(unknown.wait(), InvalidArgument);
  });
}

}  // namespace
}  // namespace trireme::rpc
