// Gradients through calls beside those of one process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

constexpr Mode kModes[] = {Mode::Exact, Mode::Fast};

/// What a body computes from leaves, once here and then in each way: gradients must be
/// the same.
using Loss = std::function<Tensors(const Agent&, Way, const Tensors& leaves)>;

void expect_same_as_here(
    int workers,
    const rpc::FunctionTable& functions,
    const Tensors& leaves,
    const Loss& loss,
    int rounds = 1) {
  lead_world(workers, functions, [&](Agent& agent) {
    Tensors expected;
    for (const at::Tensor& leaf : leaves)
      leaf.mutable_grad().reset();
    for (int i = 0; i < rounds; ++i)
      torch::autograd::backward(loss(agent, Way::Here, leaves), {});
    for (const at::Tensor& leaf : leaves)
      expected.push_back(leaf.grad().defined() ? leaf.grad().clone() : at::Tensor());
    for (const Way way : kWays)
      for (const Mode mode : kModes) {
        SCOPED_TRACE(text(to_string(way), mode == Mode::Exact ? " exact" : " fast"));
        const Context context(agent);
        for (int i = 0; i < rounds; ++i)
          context.backward(loss(agent, way, leaves), {.mode = mode});
        for (std::size_t i = 0; i < leaves.size(); ++i) {
          const at::Tensor gradient = context.gradient(leaves[i]);
          ASSERT_EQ(gradient.defined(), expected[i].defined()) << i;
          if (!gradient.defined())
            continue;
          EXPECT_EQ(gradient.layout(), expected[i].layout());
          EXPECT_TRUE(
              at::allclose(gradient.to_dense(), expected[i].to_dense(), 1.3e-6, 1e-5))
              << i << '\n'
              << gradient << '\n'
              << expected[i];
          EXPECT_EQ(gradient.scalar_type(), leaves[i].scalar_type());
        }
      }
    for (const at::Tensor& leaf : leaves)
      leaf.mutable_grad().reset();
  });
}

Loss chain_of(std::vector<std::pair<std::string, std::string>> calls) {
  return [calls](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
    at::Tensor y = leaves[0];
    for (const auto& [worker, function] : calls)
      y = apply(agent, way, worker, function, y, leaves[1]);
    return {y.sum()};
  };
}

TEST(BackwardRanks, OneCall) {
  expect_same_as_here(
      2,
      basic_functions(),
      {leaf({3, 3}), leaf({3, 3})},
      chain_of({{"worker1", "mul"}}));
}

TEST(BackwardRanks, ACallOfItself) {
  expect_same_as_here(
      1,
      basic_functions(),
      {leaf({3, 3}), leaf({3, 3})},
      chain_of({{"worker0", "mul"}}));
}

TEST(BackwardRanks, SeveralRoundTrips) {
  expect_same_as_here(
      3,
      basic_functions(),
      {leaf({3, 3}), leaf({3, 3})},
      chain_of(
          {{"worker1", "add"},
           {"worker2", "mul"},
           {"worker1", "matmul"},
           {"worker0", "mul"},
           {"worker2", "mul"}}));
}

TEST(BackwardRanks, NothingForTensorsThatNeedNone) {
  expect_same_as_here(
      2,
      basic_functions(),
      {leaf({3, 3}), at::rand({3, 3})},
      chain_of({{"worker1", "mul"}}));
}

TEST(BackwardRanks, ShapesThatAreBroadcast) {
  expect_same_as_here(
      2, basic_functions(), {leaf({4, 6}), leaf({6})}, chain_of({{"worker1", "add"}}));
  expect_same_as_here(
      2,
      basic_functions(),
      {leaf({4, 1}), leaf({1, 6})},
      chain_of({{"worker1", "mul"}}));
}

TEST(BackwardRanks, DtypesThatDiffer) {
  expect_same_as_here(
      2,
      basic_functions(),
      {leaf({3, 3}, at::kFloat), leaf({3, 3}, at::kDouble)},
      chain_of({{"worker1", "mul"}}));
}

TEST(BackwardRanks, ComplexNumbers) {
  expect_same_as_here(
      2,
      basic_functions(),
      {leaf({3}, at::kComplexFloat), leaf({3}, at::kComplexFloat)},
      [](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        return {
            at::abs(apply(agent, way, "worker1", "mul", leaves[0], leaves[1])).sum()};
      });
}

TEST(BackwardRanks, SeveralLosses) {
  expect_same_as_here(
      2,
      basic_functions(),
      {leaf({3, 3}), leaf({3, 3})},
      [](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        Tensors losses;
        for (const char* function : {"add", "mul", "matmul", "mul"})
          losses.push_back(
              apply(agent, way, "worker1", function, leaves[0], leaves[1]).sum());
        return losses;
      });
}

TEST(BackwardRanks, GradientsOfTwoRoundsAddUp) {
  expect_same_as_here(
      2,
      basic_functions(),
      {leaf({3, 3}), leaf({3, 3})},
      chain_of({{"worker1", "mul"}, {"worker1", "mul"}}),
      2);
}

TEST(BackwardRanks, ATensorThatIsSentTwice) {
  expect_same_as_here(
      3,
      basic_functions(),
      {leaf({3, 3})},
      [](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        const at::Tensor y = apply(agent, way, "worker1", "mul", leaves[0], leaves[0]);
        return {apply(agent, way, "worker2", "mul", y, y).sum(), (y * leaves[0]).sum()};
      });
}

// A diamond: two ways from one tensor to one loss.
TEST(BackwardRanks, PathsThatMeetAgain) {
  expect_same_as_here(
      4,
      basic_functions(),
      {leaf({3, 3}), leaf({3, 3})},
      [](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        const at::Tensor top =
            apply(agent, way, "worker1", "mul", leaves[0], leaves[1]);
        const at::Tensor left = apply(agent, way, "worker2", "mul", top, leaves[0]);
        const at::Tensor right = apply(agent, way, "worker3", "add", top, leaves[1]);
        return {apply(agent, way, "worker1", "matmul", left, right).sum()};
      });
}

// Local operations between and around calls; views and writes in place to what came.
TEST(BackwardRanks, OperationsInPlaceOnResults) {
  expect_same_as_here(
      2,
      basic_functions(),
      {leaf({4, 4}), leaf({4, 4})},
      [](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        at::Tensor y = apply(agent, way, "worker1", "mul", leaves[0], leaves[1]);
        y.mul_(2);
        y.select(0, 1).add_(leaves[1].select(0, 2));
        return {apply(agent, way, "worker1", "add", y.transpose(0, 1), leaves[0])
                    .pow(2)
                    .sum()};
      });
}

TEST(BackwardRanks, SparseGradients) {
  rpc::FunctionTable table = basic_functions();
  table.add("lookup", [](const at::Tensor& weight, const at::Tensor& ids) {
    return std::get<0>(at::embedding_bag(
        weight, ids, at::arange(0, ids.numel(), 2, at::kLong), false, 1, true));
  });
  const auto lookup = [](const Agent& agent, Way way, const at::Tensor& weight) {
    const at::Tensor ids = at::tensor({1, 2, 2, 5, 7, 1}, at::kLong);
    if (way == Way::Here)
      return std::get<0>(at::embedding_bag(
          weight, ids, at::arange(0, 6, 2, at::kLong), false, 1, true));
    if (way == Way::Call)
      return agent.to("worker1").call<at::Tensor>("lookup", weight, ids);
    if (way == Way::Async)
      return agent.to("worker1").async<at::Tensor>("lookup", weight, ids).get();
    return agent.to("worker1").remote<at::Tensor>("lookup", weight, ids).to_here();
  };
  // Sparse alone, sparse twice, and sparse beside dense.
  for (const bool dense : {false, true})
    expect_same_as_here(
        2,
        table,
        {leaf({10, 3})},
        [&](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
          Tensors losses{lookup(agent, way, leaves[0]).sum()};
          if (dense)
            losses.push_back(
                apply(agent, way, "worker1", "mul", leaves[0], leaves[0]).sum());
          return losses;
        },
        2);
}

// Parts of a list that need gradients, among some that need none or are undefined.
TEST(BackwardRanks, ListsOfWhichSomeNeedGradients) {
  rpc::FunctionTable table;
  const auto weigh = [](const Tensors& all) -> Tensors {
    return {all[0] * all[1], at::Tensor(), all[3].sum(0), all[1] + 1};
  };
  table.add("weigh", weigh);
  expect_same_as_here(
      2,
      table,
      {leaf({3}), leaf({3, 3})},
      [&](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        const Tensors given{leaves[0], at::ones({3}), at::Tensor(), leaves[1]};
        const Tensors got =
            way == Way::Here ? weigh(given)
            : way == Way::Remote
                ? agent.to("worker1").remote<Tensors>("weigh", given).to_here()
                : agent.to("worker1").call<Tensors>("weigh", given);
        EXPECT_FALSE(got[1].defined());
        EXPECT_FALSE(got[3].requires_grad());
        return {(got[0] * got[2]).sum()};
      });
}

// Only one of two results is used: the other's gradient is undefined, not zeros.
TEST(BackwardRanks, ResultsOfACallThatAreUsedInPart) {
  rpc::FunctionTable table;
  const auto both = [](const at::Tensor& a, const at::Tensor& b) -> Tensors {
    return {a * 2, b * 3};
  };
  table.add("both", both);
  expect_same_as_here(
      2,
      table,
      {leaf({3}), leaf({3})},
      [&](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        const Tensors got = way == Way::Here ? both(leaves[0], leaves[1])
                                             : agent.to("worker1").call<Tensors>(
                                                   "both", leaves[0], leaves[1]);
        return {got[0].sum()};
      });
}

// A function that calls on: worker1 asks worker2, which asks worker0.
TEST(BackwardRanks, CallsInsideOfCalls) {
  rpc::FunctionTable table = basic_functions();
  table.add("twice_on", [](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor y =
        rpc::this_agent().to("worker2").call<at::Tensor>("once_on", a * b, b);
    return y * a;
  });
  table.add("once_on", [](const at::Tensor& a, const at::Tensor& b) {
    return rpc::this_agent().to("worker0").call<at::Tensor>("matmul", a, b + 1);
  });
  expect_same_as_here(
      3,
      table,
      {leaf({3, 3}), leaf({3, 3})},
      [](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        const at::Tensor &a = leaves[0], &b = leaves[1];
        if (way == Way::Here)
          return {(at::matmul(a * b, b + 1) * a).sum()};
        const at::Tensor y =
            way == Way::Remote
                ? agent.to("worker1").remote<at::Tensor>("twice_on", a, b).to_here()
                : agent.to("worker1").call<at::Tensor>("twice_on", a, b);
        return {y.sum()};
      });
}

// A function that gives a future, and goes on with it elsewhere.
TEST(BackwardRanks, FunctionsThatReturnFutures) {
  rpc::FunctionTable table = basic_functions();
  table.add("later", [](const at::Tensor& a, const at::Tensor& b) {
    return rpc::this_agent()
        .to("worker2")
        .async<at::Tensor>("mul", a, b)
        .then([a](const at::Tensor& y) { return y + a; });
  });
  expect_same_as_here(
      3,
      table,
      {leaf({3, 3}), leaf({3, 3})},
      [](const Agent& agent, Way way, const Tensors& leaves) -> Tensors {
        if (way == Way::Here)
          return {(leaves[0] * leaves[1] + leaves[0]).sum()};
        return {
            agent.to("worker1").call<at::Tensor>("later", leaves[0], leaves[1]).sum()};
      });
}

TEST(BackwardRanks, WithoutAnyCall) {
  expect_same_as_here(
      1, {}, {leaf({3, 3})}, [](const Agent&, Way, const Tensors& leaves) -> Tensors {
        return {leaves[0].pow(3).sum()};
      });
}

TEST(BackwardRanks, ManyPassesOverOneGraph) {
  lead_world(2, basic_functions(), [](Agent& agent) {
    const at::Tensor a = leaf({2, 2}), b = leaf({2, 2});
    const Context context(agent);
    const at::Tensor loss = agent.to("worker1").call<at::Tensor>("mul", a, b).sum();
    constexpr int kPasses = 1000;
    for (int i = 0; i < kPasses; ++i)
      context.backward({loss}, {.keep_graph = true});
    EXPECT_TRUE(at::allclose(context.gradient(a), b * kPasses, 1e-4));
    context.backward({loss});
    const std::string complaint = message_of<Error>([&] { context.backward({loss}); });
    EXPECT_TRUE(contains(complaint, "keep_graph")) << complaint;
  });
}

// Hooks of tensors and nodes run once, where their tensors are.
TEST(BackwardRanks, HooksOfTensors) {
  lead_world(2, basic_functions(), [](Agent& agent) {
    const at::Tensor a = leaf({3}), b = leaf({3});
    int calls = 0;
    a.register_hook([&](const at::Tensor& gradient) {
      ++calls;
      return gradient * 2;
    });
    const Context context(agent);
    const at::Tensor y = agent.to("worker1").call<at::Tensor>("mul", a, b);
    int of_result = 0;
    y.register_hook([&](const at::Tensor& gradient) {
      ++of_result;
      return gradient * 3;
    });
    context.backward({y.sum()});
    EXPECT_TRUE(at::allclose(context.gradient(a), b * 6));
    EXPECT_TRUE(at::allclose(context.gradient(b), a * 3));
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(of_result, 1);
  });
}

// Hooks of nodes, and those of the node that adds a gradient up, which users of torch
// have: once a pass each, also where several gradients come.
TEST(BackwardRanks, HooksOfNodes) {
  struct Count final : torch::autograd::FunctionPostHook {
    explicit Count(int& calls) : calls_(calls) {}
    autograd::variable_list operator()(
        const autograd::variable_list& outputs,
        const autograd::variable_list&) override {
      ++calls_;
      return outputs;
    }
    int& calls_;
  };
  lead_world(2, basic_functions(), [](Agent& agent) {
    const at::Tensor a = leaf({3}), b = leaf({3});
    int of_leaf = 0, of_product = 0;
    const auto adds = torch::autograd::impl::grad_accumulator(a);
    adds->add_post_hook(std::make_unique<Count>(of_leaf));
    const Context context(agent);
    const at::Tensor product = a * b;
    product.grad_fn()->add_post_hook(std::make_unique<Count>(of_product));
    const auto caller = agent.to("worker1");
    const at::Tensor y = caller.call<at::Tensor>("mul", product, a);
    const at::Tensor z = caller.call<at::Tensor>("add", product, a);
    context.backward({y.sum(), z.sum()});
    EXPECT_EQ(of_leaf, 1);
    EXPECT_EQ(of_product, 1);
    EXPECT_TRUE(at::allclose(context.gradient(a), 2 * a * b + b + 1));
  });
}

// Parameters that live on another worker, behind references.
TEST(BackwardRanks, ParametersOfTheOwner) {
  rpc::FunctionTable table = basic_functions();
  table.add(
      "make", [](std::int64_t n) { return at::ones({n}).set_requires_grad(true); });
  table.add("scale", [](const rpc::RRef<at::Tensor>& w, const at::Tensor& x) {
    return *w.local_value() * x;
  });
  table.add("gradient", [](const rpc::RRef<at::Tensor>& w) {
    return this_context().gradient(*w.local_value());
  });
  lead_world(2, table, [](Agent& agent) {
    const at::Tensor x = leaf({3});
    const auto w = agent.to("worker1").remote<at::Tensor>("make", std::int64_t{3});
    const Context context(agent);
    const at::Tensor y = agent.to("worker1").call<at::Tensor>("scale", w, x);
    const at::Tensor copy = w.to_here();
    context.backward({(y * copy).sum()});
    const at::Tensor dw = agent.to("worker1").call<at::Tensor>("gradient", w);
    EXPECT_TRUE(at::allclose(dw, 2 * x));
    EXPECT_TRUE(at::allclose(context.gradient(x), at::ones({3})));
  });
}

// Each worker serves the parameters of the others, all at once: a context each.
TEST(BackwardRanks, EachServesTheOthers) {
  rpc::FunctionTable table = basic_functions();
  run_world(4, table, [](Agent& agent) {
    for (int round = 0; round < 5; ++round) {
      const at::Tensor a = leaf({4, 4}), b = leaf({4, 4});
      const Context context(agent);
      at::Tensor y = a;
      for (const auto& worker : agent.workers())
        if (worker.id != agent.me().id)
          y = agent.to(worker).call<at::Tensor>("mul", y, b);
      context.backward({y.sum()});
      EXPECT_TRUE(at::allclose(context.gradient(a), b.pow(3)));
      EXPECT_TRUE(at::allclose(context.gradient(b), 3 * a * b.pow(2)));
    }
    EXPECT_TRUE(soon([&] { return contexts_of(agent)->size() == 0; }));
  });
}

// 3 workers × 20 threads with a context each.
TEST(BackwardRanks, SixtyContextsAtOnce) {
  rpc::FunctionTable table = basic_functions();
  run_world(4, table, [](Agent& agent) {
    if (agent.me().id == 0)
      return;
    std::vector<std::thread> threads;
    for (int i = 0; i < 20; ++i)
      threads.emplace_back([&] {
        for (int round = 0; round < 3; ++round) {
          const at::Tensor a = leaf({3, 3}), b = leaf({3, 3});
          const Context context(agent);
          at::Tensor y = a;
          for (int call = 0; call < 4; ++call)
            y = agent.to("worker0").call<at::Tensor>("mul", y, b);
          context.backward({y.sum()});
          EXPECT_TRUE(at::allclose(context.gradient(a), b.pow(4)));
        }
      });
    for (std::thread& thread : threads)
      thread.join();
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
