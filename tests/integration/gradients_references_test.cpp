// Contexts and references: values that are made by calls, and used by others.
#include <csignal>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/modules/linear.h>

#include "../dist_autograd/worlds.h"
#include "trireme/rpc/remote_module.h"

namespace trireme::dist_autograd {
namespace {

using Ref = rpc::RRef<at::Tensor>;

rpc::FunctionTable sharing_functions() {
  rpc::FunctionTable table = basic_functions();
  table.add("add_to_local", [](const Ref& a, const at::Tensor& b) {
    return *a.local_value() + b;
  });
  // A worker that does not own the value fetches it, inside the context of its call.
  table.add("fetch_and_add", [](const Ref& a, const at::Tensor& b) {
    return a.to_here() + b;
  });
  table.add("gradient_of", [](const Ref& a) {
    return this_context().gradient(*a.local_value());
  });
  return table;
}

// The value is made by a call of the context, so its gradient goes on to the arguments.
TEST(ReferencesRanks, AreCrossedByGradients) {
  for (const bool sparse : {false, true})
    lead_world(2, sharing_functions(), [&](Agent& agent) {
      at::Tensor a = at::rand({3, 3}), b = at::rand({3, 3});
      if (sparse)
        a = a.to_sparse(), b = b.to_sparse();
      a.set_requires_grad(true);
      b.set_requires_grad(true);
      const auto sum = [&](const at::Tensor& y) {
        return sparse ? at::_sparse_sum(y) : y.sum();
      };
      const Context context(agent);
      const auto caller = agent.to("worker1");
      const Ref made = caller.remote<at::Tensor>("add", a, b);
      const at::Tensor y = caller.call<at::Tensor>("add_to_local", made, a);
      const at::Tensor z = caller.remote<at::Tensor>("add_to_local", made, b).to_here();
      context.backward({sum(y), sum(z), sum(made.to_here())});
      EXPECT_TRUE(at::allclose(context.gradient(a).to_dense(), at::full({3, 3}, 4.0)));
      EXPECT_TRUE(at::allclose(context.gradient(b).to_dense(), at::full({3, 3}, 4.0)));
    });
}

// Three workers use the value of a fourth, each through its own call.
TEST(ReferencesRanks, AreUsedBySeveralWorkers) {
  lead_world(4, sharing_functions(), [](Agent& agent) {
    const at::Tensor owned = leaf({3}), given = leaf({3});
    const Ref mine = agent.own(owned);
    const Context context(agent);
    Tensors losses;
    for (const char* worker : {"worker1", "worker2", "worker3"})
      losses.push_back(
          agent.to(worker).call<at::Tensor>("fetch_and_add", mine, given).sum());
    const Ref there = agent.to("worker1").remote<at::Tensor>("mul", owned, given);
    for (const char* worker : {"worker1", "worker2", "worker3", "worker0"})
      losses.push_back(
          agent.to(worker).call<at::Tensor>("fetch_and_add", there, given).sum());
    context.backward(losses);
    EXPECT_TRUE(at::allclose(context.gradient(owned), 3 + 4 * given));
    EXPECT_TRUE(at::allclose(context.gradient(given), 7 + 4 * owned));
  });
}

// A parameter that lives elsewhere has its gradient there, in each context its own.
TEST(ReferencesRanks, ParametersHaveTheirGradientsWhereTheyAre) {
  rpc::FunctionTable table = sharing_functions();
  table.add(
      "weight", [](std::int64_t n) { return at::ones({n}).set_requires_grad(true); });
  lead_world(3, table, [](Agent& agent) {
    const Ref weight =
        agent.to("worker1").remote<at::Tensor>("weight", std::int64_t{3});
    for (const double factor : {1.0, 5.0}) {
      const Context context(agent);
      const at::Tensor x = at::full({3}, factor);
      const at::Tensor y =
          agent.to("worker2").call<at::Tensor>("fetch_and_add", weight, x);
      context.backward({(y * x).sum()});
      const at::Tensor gradient =
          agent.to("worker1").call<at::Tensor>("gradient_of", weight);
      EXPECT_TRUE(at::allclose(gradient, x));
    }
  });
}

// A bag with weights a sample, of which some tensors need no gradient, twice over.
TEST(ReferencesRanks, BagsWithWeightsOfSamples) {
  rpc::FunctionTable table = basic_functions();
  const auto bag = [](const at::Tensor& weight,
                      const at::Tensor& ids,
                      const at::Tensor& offsets,
                      const at::Tensor& samples) {
    return std::get<0>(
        at::embedding_bag(weight, ids, offsets, false, 0, true, samples));
  };
  table.add("bag", bag);
  lead_world(2, table, [&](Agent& agent) {
    const at::Tensor weight = leaf({10, 3});
    const at::Tensor ids = at::tensor({2, 3, 7, 7, 1}, at::kLong);
    const at::Tensor offsets = at::tensor({0, 2}, at::kLong);
    const at::Tensor samples = leaf({5});
    bag(weight, ids, offsets, samples).sum().backward();
    for (int round = 0; round < 2; ++round) {
      const Context context(agent);
      const at::Tensor y =
          agent.to("worker1").call<at::Tensor>("bag", weight, ids, offsets, samples);
      context.backward({y.sum()});
      EXPECT_TRUE(context.gradient(weight).is_sparse());
      EXPECT_TRUE(
          at::allclose(context.gradient(weight).to_dense(), weight.grad().to_dense()));
      EXPECT_TRUE(at::allclose(context.gradient(samples), samples.grad()));
    }
  });
}

TEST(ReferencesRanks, RemoteModulesAreCrossedToo) {
  rpc::FunctionTable table = sharing_functions();
  rpc::ModuleFactory<at::Tensor(at::Tensor)> linear("Linear");
  linear.add_to(table, [](std::int64_t in, std::int64_t out) {
    return std::make_shared<torch::nn::LinearImpl>(in, out);
  });
  lead_world(2, table, [](Agent& agent) {
    const rpc::RemoteModule<at::Tensor(at::Tensor)> layer(
        agent, "worker1/cpu", "Linear", 4, 3);
    const rpc::StateDict state = layer.state_dict();
    const at::Tensor weight = state.at("weight").detach().set_requires_grad(true);
    const at::Tensor bias = state.at("bias").detach().set_requires_grad(true);
    const at::Tensor x = leaf({5, 4});
    at::linear(x, weight, bias).pow(2).sum().backward();
    const Context context(agent);
    const at::Tensor y = layer.forward(x);
    const at::Tensor later = layer.forward_async(x).get();
    context.backward({(y * later).sum()});
    EXPECT_TRUE(at::allclose(context.gradient(x), x.grad(), 1e-4));
    const auto parameters = layer.parameters();
    ASSERT_EQ(parameters.size(), 2U);
    EXPECT_TRUE(at::allclose(
        agent.to("worker1").call<at::Tensor>("gradient_of", parameters[0].value),
        weight.grad(),
        1e-4));
    EXPECT_TRUE(at::allclose(
        agent.to("worker1").call<at::Tensor>("gradient_of", parameters[1].value),
        bias.grad(),
        1e-4));
  });
}

// Workers that are gone before backward begins are named by it.
TEST(ReferencesProcs, WorkersThatAreGoneAreNamed) {
  auto options = with_functions(sharing_functions());
  testing::RpcProcesses world(3, options);
  const testing::SharedNumber stage;
  world.start([&](Agent& agent) -> int {
    const at::Tensor x = leaf({3});
    const Context context(agent);
    const at::Tensor y = agent.to("worker2").call<at::Tensor>(
        "mul", agent.to("worker1").call<at::Tensor>("mul", x, x), x);
    *stage = 1;
    if (!soon([&] { return *stage == 2; }))
      return 3;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    try {
      context.backward({y.sum()});
      return 4;
    } catch (const PeerError& error) {
      *stage = 3;
      return error.rank() == 1 && contains(error.what(), "worker1") ? 0 : 5;
    }
  });
  world.start([&](Agent&) -> int {
    if (!soon([&] { return *stage == 1; }))
      return 3;
    *stage = 2;
    return ::raise(SIGKILL);
  });
  world.start([&](Agent&) -> int { return soon([&] { return *stage == 3; }) ? 0 : 3; });
  EXPECT_EQ(world.processes().wait(std::chrono::seconds(30))[0].exit_code, 0);
}

}  // namespace
}  // namespace trireme::dist_autograd
