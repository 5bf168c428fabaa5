// Random programs over four workers beside the same programs on one.
#include <random>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "../dist_autograd/journey.h"

namespace trireme::dist_autograd {
namespace {

constexpr int kWorkers = 4;
constexpr int kLeaves = 3;

using Numbers = std::mt19937;

int draw(Numbers& numbers, int below) {
  return static_cast<int>(numbers() % static_cast<unsigned>(below));
}

/// One operation of two tensors; all keep values small.
at::Tensor operate(std::int64_t kind, const at::Tensor& a, const at::Tensor& b) {
  switch (kind % 8) {
    case 0:
      return a + b;
    case 1:
      return a * b;
    case 2:
      return at::matmul(a, b) / 4;
    case 3:
      return at::tanh(a) - b;
    case 4:
      return at::relu(a).t() + b;
    case 5:
      return at::cat({a, b}, 0).narrow(0, 2, 4);
    case 6:
      return (a.clone().mul_(2) + b).sigmoid();
    default:
      return at::max(a, b) * a.mean();
  }
}

/// Makes the same draws on all workers from a seed: two operations here, and between
/// them perhaps a call of the next worker, whose result may be thrown away.
at::Tensor wander(
    const std::function<at::Tensor(
        int, std::int64_t, std::int64_t, const at::Tensor&, const at::Tensor&)>& call,
    std::int64_t seed,
    std::int64_t depth,
    const at::Tensor& a,
    const at::Tensor& b) {
  Numbers numbers(static_cast<unsigned>(seed));
  at::Tensor y = operate(draw(numbers, 8), a, b);
  if (depth > 0) {
    const int calls = 1 + draw(numbers, 2);
    for (int i = 0; i < calls; ++i) {
      const int worker = draw(numbers, kWorkers);
      const at::Tensor z =
          call(worker, static_cast<std::int64_t>(numbers()), depth - 1, y, b);
      if (draw(numbers, 4) != 0)  // else nobody uses it
        y = operate(draw(numbers, 8), z, y);
    }
  }
  return operate(draw(numbers, 8), y, a);
}

at::Tensor wander_here(
    int,
    std::int64_t seed,
    std::int64_t depth,
    const at::Tensor& a,
    const at::Tensor& b) {
  return wander(wander_here, seed, depth, a, b);
}

using Wander = at::Tensor(std::int64_t, std::int64_t, at::Tensor, at::Tensor);
const rpc::Function<Wander> kWander{.name = "wander"};

template <class Home>
at::Tensor wander_from(
    const Home& home,
    std::int64_t seed,
    std::int64_t depth,
    const at::Tensor& a,
    const at::Tensor& b) {
  return wander(
      [&](int worker,
          std::int64_t next,
          std::int64_t left,
          const at::Tensor& x,
          const at::Tensor& y) {
        const rpc::Caller caller = home.to(worker);
        return next % 3 == 0 ? caller.remote(kWander, next, left, x, y).to_here()
                             : caller.call(kWander, next, left, x, y);
      },
      seed,
      depth,
      a,
      b);
}

rpc::FunctionTable wandering_functions() {
  rpc::FunctionTable table;
  table.add(
      kWander,
      [](std::int64_t seed,
         std::int64_t depth,
         const at::Tensor& a,
         const at::Tensor& b) {
        return wander_from(rpc::this_agent(), seed, depth, a, b);
      });
  return table;
}

Tensors leaves_of(int seed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Tensors leaves;
  for (int i = 0; i < kLeaves; ++i)
    leaves.push_back(at::randn({4, 4}, generator, at::kDouble).set_requires_grad(true));
  return leaves;
}

Tensors losses_of(const std::function<at::Tensor(int)>& part, int seed) {
  Tensors losses{part(seed).mean()};
  if (seed % 3 == 0)
    losses.push_back(part(seed + 7919).pow(2).mean());
  return losses;
}

void expect_same(const Agent& agent, int seed) {
  const Tensors leaves = leaves_of(seed);
  const auto leaf = [&](int i) {
    return leaves[static_cast<std::size_t>(i % kLeaves)];
  };
  const Tensors expected = torch::autograd::grad(
      losses_of(
          [&](int s) { return wander_here(0, s, 3, leaf(s), leaf(s + 1)); }, seed),
      leaves,
      {},
      std::nullopt,
      false,
      true);
  // A graph that was learnt from another program may look the same from here: then it
  // is refused by name, and never a wrong gradient.
  for (const bool static_graph : {false, true, true}) {
    SCOPED_TRACE(text("seed ", seed, static_graph ? ", static" : ""));
    const Context context(agent);
    const Tensors losses = losses_of(
        [&](int s) { return wander_from(agent, s, 3, leaf(s), leaf(s + 1)); }, seed);
    try {
      context.backward(
          losses, {.static_graph = static_graph, .timeout = std::chrono::seconds(30)});
    } catch (const Error& error) {
      EXPECT_TRUE(static_graph && contains(error.what(), "static_graph"))
          << error.what();
      continue;
    }
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const at::Tensor gradient = context.gradient(leaves[i]);
      ASSERT_EQ(gradient.defined(), expected[i].defined());
      EXPECT_TRUE(
          !gradient.defined() || at::allclose(gradient, expected[i], 1e-9, 1e-12));
    }
  }
}

// All four workers run programs at the same time, each through the others.
class RandomGraphsRanks : public ::testing::TestWithParam<Road> {};

TEST_P(RandomGraphsRanks, EqualThoseOfOneProcess) {
  const Journey journey(GetParam());
  testing::run_rpc(
      testing::RpcKind::Threads,
      kWorkers,
      journey.options(wandering_functions()),
      [&](Agent& agent) {
        for (int seed = agent.me().id; seed < 200; seed += kWorkers)
          expect_same(agent, seed);
      });
}

INSTANTIATE_TEST_SUITE_P(
    Roads, RandomGraphsRanks, ::testing::ValuesIn(kRoads), [](const auto& road) {
      return to_string(road.param);
    });

}  // namespace
}  // namespace trireme::dist_autograd
